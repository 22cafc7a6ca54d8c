// Sessa's feedback solve, s = f + gamma (alpha s), where alpha are softmax weights of the strict past. For a tile of 64
// tokens let alpha_d be its diagonal block, K = alpha_d (1 - gamma alpha_d)^-1, and W the weights of an earlier tile:
//     routed = K f + sum over earlier tiles of (1 + K gamma) W s, s = f + gamma routed.
// prepare_kernel computes the softmax's logarithms and K of all tiles in parallel. In solve_kernel a block has one tile
// and waits for each earlier tile of s when it needs it. Distant tiles are summed as R = W s and corrected together,
// routed = K (f + gamma R) + R; for the last few the weights are corrected, so that one product is on the critical path
// from a tile of s to the next. The gradient solves the transposed system from the last token to the first,
//     u = (1 + K' gamma) ds + sum of (1 + K' gamma) W' u,
// then passes over all pairs as in attention (pairs.cuh). Grid of both kernels: tiles of all sequences.
#include <algorithm>
#include <type_traits>

#include "core/backend/feedback.h"
#include "gpu/ops/attention/pairs.cuh"

namespace afterglow {

using namespace device;
using namespace device::tiles;

namespace {

constexpr int block = 2 * group_threads;        // threads of prepare_kernel
constexpr int solve_block = 4 * group_threads;  // threads of solve_kernel
constexpr int square = rows * rows;
constexpr std::size_t forward_operands = 3, backward_operands = 4;  // matrices of a row a token: q, k, s and ds
constexpr int half = rows / 2;  // streamed rows of a group of warps in prepare_kernel

struct Workspace {
  /// K and then K' in the fragment layout of a left operand, exactly: [B][tiles][2][16 rows][16 columns][numbers, then
  /// remainders][32 lanes].
  uint4* diagonal;
  unsigned* counts;  // a ticket, then the number of solved tiles of each sequence
  int tiles;
  static constexpr int pieces = 2 * square / 4;  // of 16 bytes for a tile
  __device__ uint4* inverse(int b, int tile) const { return diagonal + (std::size_t(b) * tiles + tile) * pieces; }
  __device__ unsigned* solved(int b) const { return counts + 1 + b; }
  static unsigned count_of(int batch) { return 1 + unsigned(batch); }
};

struct Square {
  static constexpr int stride = rows + 8;
  float* data;
  __device__ float* row(int i) const { return data + i * stride; }
};

template <int columns, bool exact>
constexpr int prepare_bytes = std::max(3 * tile_bytes<columns, exact>, 3 * rows * Square::stride * 4);

/// A sum of powers of two, kept as its largest exponent and the sum relative to it.
struct PowerSum {
  float largest = -INFINITY, total = 0;
  __device__ void join(float other_largest, float other_total) {
    const float top = fmaxf(largest, other_largest), base = top == -INFINITY ? 0.0f : top;
    total = total * exp2f(largest - base) + other_total * exp2f(other_largest - base);
    largest = top;
  }
};

/// sum + the product of numbers [first, first + count) of a row, each times its gain, with four columns of those rows.
__device__ inline float4 add_product(const float* row, const float* gains, const Square& right, int first, int count,
                                     int column, float4 sum) {
#pragma unroll 4
  for (int j = first; j < first + count; ++j) {
    const float4 x = *reinterpret_cast<const float4*>(right.row(j) + column);
    sum += row[j] * gains[j] * x;
  }
  return sum;
}

/// Solves K = alpha + alpha gains K: blocks of 16 rows on the diagonal in parallel, row by row; then twice the corner
/// below two neighbours a and b, (1 + K_b gains) alpha_ba (1 + gains K_a).
__device__ inline void invert(const Square& alpha, const float* gains, const Square& inverse, const Square& scratch) {
  constexpr int small = 16;
  const int thread = int(threadIdx.x), column = thread / 4, part = thread % 4;
  for (int i = thread; i < rows * Square::stride; i += block) inverse.data[i] = 0.0f;
  __syncthreads();
  const int base = column / small * small;  // four threads share a column; a warp has whole columns of one block
  for (int row = base + 1; row < base + small; ++row) {
    float sum = 0;
    for (int j = base + part; j < row; j += 4) sum += alpha.row(row)[j] * gains[j] * inverse.row(j)[column];
    sum += __shfl_xor_sync(full_warp, sum, 1);
    sum += __shfl_xor_sync(full_warp, sum, 2);
    if (part == 0 && column < row) inverse.row(row)[column] = alpha.row(row)[column] + sum;
    __syncwarp();
  }
  for (int size = small; size < rows; size *= 2) {
    __syncthreads();
    const int fours = size / 4, first = thread / (size * fours) * 2 * size;
    const int row = first + size + thread / fours % size, place = first + thread % fours * 4;
    const bool has_part = first < rows;
    if (has_part) {
      const float4 given = *reinterpret_cast<const float4*>(alpha.row(row) + place);
      *reinterpret_cast<float4*>(scratch.row(row) + place) =
          add_product(alpha.row(row), gains, inverse, first, size, place, given);
    }
    __syncthreads();
    if (has_part) {
      const float4 given = *reinterpret_cast<const float4*>(scratch.row(row) + place);
      *reinterpret_cast<float4*>(inverse.row(row) + place) =
          add_product(inverse.row(row), gains, scratch, first + size, size, place, given);
    }
  }
}

// Weights and K are at most 1, so they share one scale.
constexpr float max_weight = 16384.0f;

__device__ inline void write_inverse(const Square& inverse, uint4* to) {
  for (int i = int(threadIdx.x); i < Workspace::pieces / 2; i += block) {
    const int lane = i % 32, row = i / 128 % 4 * 16 + lane / 4, column = i / 32 % 4 * 16 + lane % 4 * 2;
    const bool transposed = i >= Workspace::pieces / 4;
    std::uint32_t big[4], rest[4];
    unrolled<4>([&](int k) {
      const int r = row + k % 2 * 8, c = column + k / 2 * 8;
      const float x = transposed ? inverse.row(c)[r] : inverse.row(r)[c];
      const float y = transposed ? inverse.row(c + 1)[r] : inverse.row(r)[c + 1];
      split(x * max_weight, y * max_weight, big[k], rest[k]);
    });
    uint4* place = to + i / 32 * 64 + lane;
    place[0] = make_uint4(big[0], big[1], big[2], big[3]);
    place[32] = make_uint4(rest[0], rest[1], rest[2], rest[3]);
  }
}

template <int columns, bool exact>
__global__ void __launch_bounds__(block, exact ? 1 : 2)
    prepare_kernel(Pairs in, const float* gain, float* log_sum, Workspace workspace) {
  wait_for_previous_kernel();
  extern __shared__ float4 memory[];
  __shared__ float largest[2][rows], totals[2][rows], logs[rows], gains[rows];
  std::byte* const q = reinterpret_cast<std::byte*>(memory);
  const auto k = [&](int key) { return q + (1 + key / rows % 2) * tile_bytes<columns, exact>; };
  const LanePosition lane;
  const int thread = int(threadIdx.x), share = lane.group * half;
  const int tile = workspace.tiles - 1 - int(blockIdx.x) / in.batch, b = blockIdx.x % in.batch;
  const int first = tile * rows, count = min(rows, in.queries - first);
  const std::size_t row0 = std::size_t(b) * in.queries;
  copy<tile_bytes<columns, exact>>(q, in.q.at<columns, exact>(b, 0, first));
  copy<tile_bytes<columns, exact>>(k(0), in.k.at<columns, exact>(b, 0, 0));
  commit();
  PowerSum sums[2];
  Share<half> score;
  for (int key = 0; key <= first; key += rows) {
    wait<0>();
    __syncthreads();
    if (key < first) copy<tile_bytes<columns, exact>>(k(key + rows), in.k.at<columns, exact>(b, 0, key + rows));
    commit();
    dot<exact, columns>(lane, q, k(key) + share * row_bytes<columns, exact>, in.power_scale(), score);
    float top[2] = {-INFINITY, -INFINITY}, part[2] = {0, 0};
    score.each([&](int n, int r, int e, float value) {
      if (key + share + lane.column_of(n, e) >= in.seen(first + lane.row_of(r))) value = -INFINITY;
      top[r] = fmaxf(top[r], value);
      return value;
    });
    score.each([&](int, int r, int, float value) {
      part[r] += top[r] == -INFINITY ? 0.0f : exp2f(value - top[r]);
      return value;
    });
    unrolled<2>([&](int r) { sums[r].join(top[r], part[r]); });
  }
  unrolled<2>([&](int r) {
#pragma unroll
    for (int offset = 1; offset < 4; offset *= 2)
      sums[r].join(__shfl_xor_sync(full_warp, sums[r].largest, offset),
                   __shfl_xor_sync(full_warp, sums[r].total, offset));
    if (lane.part == 0) {
      largest[lane.group][lane.row_of(r)] = sums[r].largest;
      totals[lane.group][lane.row_of(r)] = sums[r].total;
    }
  });
  __syncthreads();
  if (thread < rows) {
    PowerSum sum;
    for (int group = 0; group < 2; ++group) sum.join(largest[group][thread], totals[group][thread]);
    logs[thread] = first + thread > 0 ? sum.largest + log2f(sum.total) : 0.0f;
    gains[thread] = thread < count ? gain[row0 + first + thread] : 0.0f;
    if (thread < count) log_sum[row0 + first + thread] = logs[thread] * 0.693147181f;
  }
  __syncthreads();  // the tiles of q and k have been read
  const Square alpha{reinterpret_cast<float*>(memory)}, inverse{alpha.data + rows * Square::stride},
      corners{inverse.data + rows * Square::stride};
  score.each([&](int n, int r, int e, float value) {
    const int row = lane.row_of(r), column = share + lane.column_of(n, e);
    return alpha.row(row)[column] = column < row && row < count ? exp2f(value - logs[row]) : 0.0f;
  });
  __syncthreads();
  invert(alpha, gains, inverse, corners);
  __syncthreads();
  write_inverse(inverse, workspace.inverse(b, tile));
}

/// T is the stored type of right-hand sides and solutions.
template <class T>
struct Solve {
  OperandOf<T> from;  ///< right-hand side: f, or ds
  Tiles tiles;        ///< s, or u, for the blocks that wait for it
  T* to;              ///< the same as rows [B,T,F]
  float* routed;      ///< forward: written; transposed: read
  float* means;       ///< transposed only: u . routed
  const float* gain;
  const float* log_sum;
};

__device__ inline unsigned read_count(const unsigned* count) {
  unsigned value;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(count) : "memory");
  return value;
}
/// Releases a count: a block that acquires it sees everything this block wrote before its last barrier.
__device__ inline void write_count(unsigned* count, unsigned value) {
  asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(count), "r"(value) : "memory");
}

// Matrices of weights [own row][other row] in shared memory: 64 numbers a row in either form, as in tiles.
template <bool exact>
constexpr int square_bytes = tile_bytes<rows, exact>;

template <bool exact, int width>
__device__ void store_square(const LanePosition& lane, const Share<width>& weights, int first, std::byte* to) {
  unrolled<width / 8, 2>([&](int n, int r) {
    auto* words = reinterpret_cast<std::uint32_t*>(to + lane.row_of(r) * row_bytes<rows, exact>);
    auto* place = words + (first + lane.column_of(n, 0)) / 2;
    const float x = weights.at(n, r, 0) * max_weight, y = weights.at(n, r, 1) * max_weight;
    if constexpr (exact) {
      split(x, y, place[0], place[rows / 2]);
    } else {
      place[0] = halves_of(x, y);
    }
  });
}

template <bool exact>
__device__ void load_square(const LanePosition& lane, const std::byte* from, Weights<exact, rows>& to) {
  const int place = int(threadIdx.x % 32);
  const unsigned address =
      shared_address(from + (lane.warp_row + place % 16) * row_bytes<rows, exact> + place / 16 * 16);
  unrolled<Weights<exact, rows>::steps>([&](int k) {
    load_matrices(address + k * 32, to.big[k]);
    if constexpr (exact) load_matrices(address + k * 32 + rows * 2, to.rest[k]);
  });
}

__device__ inline void load_inverse(const LanePosition& lane, const uint4* inverse, Weights<true, rows>& to) {
  const uint4* from = inverse + lane.warp_row * 16 + threadIdx.x % 32;
  const auto take = [&](Left& left, int piece) {
    const uint4 four = from[piece * 32];
    left[0] = four.x;
    left[1] = four.y;
    left[2] = four.z;
    left[3] = four.w;
  };
  unrolled<rows / 16>([&](int k) {
    take(to.big[k], 2 * k);
    take(to.rest[k], 2 * k + 1);
  });
}

/// Writes columns of the warp's rows into a tile, with one scale.
template <int columns, bool exact, int width>
__device__ void write_rows(const LanePosition& lane, const Share<width>& from, int first, const Scale& scale,
                           std::byte* tile) {
  unrolled<2>([&](int r) {
    std::byte* row = tile + lane.row_of(r) * row_bytes<columns, exact>;
    unrolled<width / 8>([&](int n) {
      const float pair[2] = {from.at(n, r, 0), from.at(n, r, 1)};
      write_part<columns, exact>(row, first + lane.column_of(n, 0), pair, scale);
    });
  });
}

/// Copies `width` columns of the warp's rows from shared memory to a tile in global memory, with the rows' unit.
template <int columns, bool exact, int width>
__device__ void copy_rows(const LanePosition& lane, const std::byte* from, int first, float unit, std::byte* to) {
  constexpr int pieces = width * 2 / 16, row_size = row_bytes<columns, exact>;
  const int place = int(threadIdx.x % 32), piece = place % pieces * 16 + first * 2;
#pragma unroll
  for (int i = 0; i < 16; i += 32 / pieces) {
    const int at = (lane.warp_row + i + place / pieces) * row_size + piece;
    *reinterpret_cast<uint4*>(to + at) = *reinterpret_cast<const uint4*>(from + at);
    if (exact)
      *reinterpret_cast<uint4*>(to + at + columns * 2) = *reinterpret_cast<const uint4*>(from + at + columns * 2);
  }
  if (first == 0 && place < 16)
    *reinterpret_cast<float*>(to + (lane.warp_row + place + 1) * row_size - sizeof(Notes)) = unit;
}

/// Reads columns of the warp's rows from `first` on; zeros beyond `count` rows and the rows' width.
template <int width, class T>
__device__ void read_rows(const LanePosition& lane, const OperandOf<T>& from, std::size_t row0, int count, int first,
                          Share<width>& to) {
  const bool whole = from.aligned && count == rows && first + width <= from.width;  // then no bounds are checked
  unrolled<width / 8, 2>([&](int n, int r) {
    const int row = lane.row_of(r), column = first + lane.column_of(n, 0);
    const T* place = from.at(row0 + row, 0) + column;
    float2 pair = make_float2(0, 0);
    if (whole) {
      pair = two_of(place);
    } else if (row < count) {
      if (column < from.width) pair.x = float(place[0]);
      if (column + 1 < from.width) pair.y = float(place[1]);
    }
    to.at(n, r, 0) = pair.x;
    to.at(n, r, 1) = pair.y;
  });
}

/// The maximum over all threads of the solve; `shared` holds one number for each warp.
template <int width>
__device__ float max_of(const Share<width>& from, float (&shared)[solve_block / 32]) {
  float peak = 0;
  unrolled<width / 2>([&](int i) { peak = fmaxf(peak, fabsf(from.value[i / 4][i % 4])); });
  return block_max(peak, shared);
}

constexpr int corrected_steps = 8;  // the last tiles, whose weights are corrected; 8 was the fastest number

/// The solve of one tile. Forward: own tokens are queries, and keys with their s are streamed from the first tile to
/// the previous one. Transposed: own tokens are keys, and queries with their u are streamed from the last tile to the
/// next one. For scores the four groups of warps share the streamed rows, for the products with s or u the columns.
template <int columns, bool exact, bool transposed, class T>
class TileSolve {
 public:
  /// Forward: after the last streamed tile its memory receives the right-hand sides.
  static constexpr bool keeps_given = !transposed, streams_wide = keeps_given || exact;
  static constexpr int own_bytes = tile_bytes<columns, exact>, solved_bytes = tile_bytes<columns, true>,
                       streamed_bytes = std::max(tile_bytes<columns, streams_wide>, square_bytes<true>),
                       inverse_at = own_bytes + solved_bytes + streamed_bytes + square_bytes<exact>,
                       inverse_bytes = Workspace::pieces / 2 * 16, bytes = inverse_at + (exact ? 0 : inverse_bytes);

  struct Board {
    float gains[rows], exchanged[4][rows], peaks[2][solve_block / 32];
    unsigned ticket, count;
  };

  __device__ TileSolve(const Pairs& pairs, const Solve<T>& given, const Workspace& space, Board& shared_board)
      : in(pairs),
        solve(given),
        workspace(space),
        board(shared_board),
        thread(int(threadIdx.x)),
        share(lane.group * part_rows),
        part(lane.group * part_columns),
        b(int(board.ticket) % in.batch),
        steps(int(board.ticket) / in.batch),
        tile(tile_at(steps)),
        count(min(rows, in.queries - tile * rows)),
        row0(std::size_t(b) * in.queries + tile * rows) {}

  __device__ void run() {
    if (steps > 0) copy<own_bytes>(own(), (transposed ? in.k : in.q).template at<columns, exact>(b, 0, tile * rows));
    if (!exact) copy<inverse_bytes>(shared_at<inverse_at>(), reinterpret_cast<const std::byte*>(saved_inverse()));
    begin_streamed(0);
    if (thread < rows) board.gains[thread] = thread < count ? solve.gain[row0 + thread] : 0.0f;
    unrolled<2>([&](int r) {
      logs[r] = !transposed && lane.row_of(r) < count ? solve.log_sum[row0 + lane.row_of(r)] * 1.44269504f : 0.0f;
    });
    __syncthreads();
    sum.clear();
    const int plain = max(0, steps - corrected_steps);
    add_tiles<false>(0, plain);
    add_own();
    add_tiles<true>(plain, steps);
    finish();
  }

 private:
  static constexpr int part_columns = columns / 4, part_rows = rows / 4;

  template <int begin>
  __device__ static std::byte* shared_at() {
    extern __shared__ float4 memory[];
    return reinterpret_cast<std::byte*>(memory) + begin;
  }
  __device__ static std::byte* own() { return shared_at<0>(); }
  __device__ static std::byte* solved() { return shared_at<own_bytes>(); }
  __device__ static std::byte* streamed() { return shared_at<own_bytes + solved_bytes>(); }
  __device__ static std::byte* weights() { return shared_at<own_bytes + solved_bytes + streamed_bytes>(); }

  /// K (transposed: K'), in shared memory if there is room.
  __device__ const uint4* inverse() const {
    return exact ? saved_inverse() : reinterpret_cast<const uint4*>(shared_at<inverse_at>());
  }
  __device__ const uint4* saved_inverse() const {
    return workspace.inverse(b, tile) + (transposed ? Workspace::pieces / 2 : 0);
  }

  __device__ int tile_at(int step) const { return transposed ? workspace.tiles - 1 - step : step; }
  __device__ float gain(int r) const { return board.gains[lane.row_of(r)]; }

  __device__ void begin_streamed(int step) {
    if (step < steps) {
      copy<tile_bytes<columns, exact>>(
          streamed(), (transposed ? in.q : in.k).template at<columns, exact>(b, 0, tile_at(step) * rows));
    } else if (keeps_given) {
      begin_given();
    }
    commit();
  }
  /// Copies rows of f over the last streamed tile.
  __device__ void begin_given() {
    const OperandOf<T>& from = solve.from;
    for (int i = thread * 4; i < rows * columns; i += solve_block * 4) {
      const int row = i / columns, column = i % columns;
      const bool inside = row < count && column < from.width;
      const T* given = inside ? from.at(row0 + row, 0) + column : from.data;
      float* to = given_row(row) + column;
      if (!from.aligned) {
        for (int e = 0; e < 4; ++e) to[e] = inside && column + e < from.width ? float(given[e]) : 0.0f;
      } else if constexpr (std::is_same_v<T, float>) {
        copy_piece(to, given, inside);
      } else {
        Piece<4>::of(given, inside).store(to);
      }
    }
  }
  __device__ float* given_row(int row) const {
    return reinterpret_cast<float*>(streamed() + row * row_bytes<columns, true>);
  }
  __device__ void begin_solved(int step) {
    copy<tile_bytes<columns, exact>>(solved(), solve.tiles.template at<columns, exact>(b, 0, tile_at(step) * rows));
    commit();
  }
  __device__ void wait_for_solved(int step) {
    if (thread == 0) {
      unsigned value;
      do value = read_count(workspace.solved(b));
      while (int(value) <= step);
      board.count = value;
    }
    __syncthreads();
    known = int(board.count);
  }

  /// Stores the weights of the streamed tile; `corrected`: W + K gains W. Then the next tile replaces it.
  template <bool corrected>
  __device__ void weigh(int step) {
    const std::byte* from = streamed() + share * row_bytes<columns, exact>;
    Share<part_rows> weight;
    dot<exact, columns>(lane, own(), from, in.power_scale(), weight);
    weight.each([&](int n, int r, int e, float value) {
      if (!transposed) return exp2f(value - logs[r]);
      const Notes& query = notes_of<columns, exact>(from, lane.column_of(n, e));
      return exp2f(value - query.log_sum) * query.gain;
    });
    Weights<true, rows> factor;
    if constexpr (corrected && exact) load_inverse(lane, inverse(), factor);  // loaded while the block waits
    __syncthreads();
    if constexpr (corrected) {
      Share<part_rows> gained = weight;
      gained.each([&](int, int r, int, float value) { return value * gain(r); });
      store_square<true>(lane, gained, share, streamed());
      __syncthreads();
      if constexpr (!exact) load_inverse(lane, inverse(), factor);
      factor.rescale[0] = factor.rescale[1] = 1.0f / (max_weight * max_weight);
      add_weighted<true, rows>(lane, factor, streamed(), share, weight);
      __syncthreads();
    }
    store_square<exact>(lane, weight, share, weights());
    begin_streamed(step + 1);
  }

  /// Adds weights times s (u) for steps [begin, end). The weights of a step are computed before its s is awaited.
  template <bool corrected>
  __device__ void add_tiles(int begin, int end) {
    if (begin == end) return;
    wait<0>();
    __syncthreads();
    weigh<corrected>(begin);
    __syncthreads();
    Weights<exact, rows> left;
    load_square<exact>(lane, weights(), left);
    for (int step = begin; step < end; ++step) {
      wait<0>();
      __syncthreads();
      const bool early = known > step;
      if (early) begin_solved(step);
      if (step + 1 < end) weigh<corrected>(step + 1);
      if (!early) {
        wait_for_solved(step);
        begin_solved(step);
      }
      if (early && step + 1 < end) {
        wait<1>();
      } else {
        wait<0>();
      }
      __syncthreads();
      left.rescale[0] = left.rescale[1] = notes_of<columns, exact>(solved(), 0).unit / max_weight;
      add_weighted<exact, columns>(lane, left, solved(), part, sum);
      load_square<exact>(lane, weights(), left);
    }
    __syncthreads();
  }

  /// Adds the terms of the tile's own right-hand side and of the sums W s (u) so far, exactly.
  __device__ void add_own() {
    Share<part_columns> given;
    read_rows(lane, solve.from, row0, count, part, given);
    if (transposed) sum.each([&](int n, int r, int e, float value) { return value + given.at(n, r, e); });
    given.each([&](int n, int r, int e, float value) {
      return transposed ? gain(r) * sum.at(n, r, e) : value + gain(r) * sum.at(n, r, e);
    });
    const Scale scale(max_of(given, board.peaks[0]));
    write_rows<columns, true>(lane, given, part, scale, solved());
    wait<0>();
    __syncthreads();
    Weights<true, rows> factor;
    load_inverse(lane, inverse(), factor);
    factor.rescale[0] = factor.rescale[1] = scale.down / max_weight;
    add_weighted<true, columns>(lane, factor, solved(), part, sum);
  }

  /// s (u) from the complete sums.
  __device__ Share<part_columns> answer() const {
    Share<part_columns> all = sum;
    if constexpr (keeps_given) {
      unrolled<2, part_columns / 8>([&](int r, int n) {
        const float* place = given_row(lane.row_of(r)) + part + lane.column_of(n, 0);
        const float2 given = *reinterpret_cast<const float2*>(place);
        all.at(n, r, 0) = given.x + gain(r) * sum.at(n, r, 0);
        all.at(n, r, 1) = given.y + gain(r) * sum.at(n, r, 1);
      });
    }
    return all;
  }

  /// Publishes s (u) to the waiting blocks, then writes the other results.
  __device__ void finish() {
    std::byte* const solution = solve.tiles.template at<columns, exact>(b, 0, tile * rows);
    {
      const Share<part_columns> all = answer();
      const Scale scale(max_of(all, board.peaks[1]));
      write_rows<columns, exact>(lane, all, part, scale, own());
      __syncwarp();
      copy_rows<columns, exact, part_columns>(lane, own(), part, scale.down, solution);
    }
    __syncthreads();
    if (thread == 0) write_count(workspace.solved(b), unsigned(steps) + 1);
    write(answer());
    if constexpr (transposed) finish_means(solution);
  }

  /// Writes rows of s and routed; transposed: rows of u and its product with routed.
  __device__ void write(const Share<part_columns>& all) {
    const int width = solve.from.width;
    float mean[2] = {0, 0};
#pragma unroll
    for (int n = 0; n < part_columns / 8; ++n)
      unrolled<2, 2>([&](int r, int e) {
        const int row = lane.row_of(r), column = part + lane.column_of(n, e);
        if (row >= count || column >= width) return;
        const std::size_t place = (row0 + row) * width + column;
        solve.to[place] = static_cast<T>(all.at(n, r, e));
        if (transposed) {
          mean[r] += all.at(n, r, e) * solve.routed[place];
        } else {
          solve.routed[place] = sum.at(n, r, e);
        }
      });
    unrolled<2>([&](int r) {
      if (!transposed) return;
      mean[r] = quad_sum(mean[r]);
      if (lane.part == 0) board.exchanged[lane.group][lane.row_of(r)] = mean[r];
    });
  }
  __device__ void finish_means(std::byte* solution) {
    __syncthreads();
    if (thread >= rows) return;
    float whole = 0;
    for (int group = 0; group < 4; ++group) whole += board.exchanged[group][thread];
    if (thread < count) solve.means[row0 + thread] = whole;
    reinterpret_cast<Notes*>(solution + (thread + 1) * row_bytes<columns, exact> - sizeof(Notes))->mean = whole;
  }

  const Pairs& in;
  const Solve<T>& solve;
  const Workspace& workspace;
  Board& board;
  const LanePosition lane;
  const int thread, share, part, b, steps, tile, count;
  const std::size_t row0;
  int known = 0;  // tiles known to be solved
  float logs[2];
  Share<part_columns> sum;
};

template <int columns, bool exact, bool transposed, class T>
__global__ void __launch_bounds__(solve_block) solve_kernel(Pairs in, Solve<T> solve, Workspace workspace) {
  wait_for_previous_kernel();
  using Tile = TileSolve<columns, exact, transposed, T>;
  __shared__ typename Tile::Board board;
  // Blocks draw tiles in the order of the solve, so a block waits only for tiles of blocks that already run.
  if (threadIdx.x == 0) board.ticket = atomicAdd(workspace.counts, 1u);
  __syncthreads();
  Tile(in, solve, workspace, board).run();
}

template <int columns, bool exact, bool transposed, class T>
void launch_solve(cudaStream_t stream, const Pairs& in, const Solve<T>& solve, const Workspace& workspace) {
  constexpr int bytes = TileSolve<columns, exact, transposed, T>::bytes;
  launch("feedback_solve", solve_kernel<columns, exact, transposed, T>, unsigned(in.batch * workspace.tiles),
         solve_block, bytes, stream, in, solve, workspace);
}

/// T is the stored type of the inputs.
template <class T, class Launch>
void with_model_width(const FeedbackInputs& in, bool exact, const Launch& launch) {
  const std::int64_t width = std::max(in.q.shape[2], in.f.shape[2]);
  if (!with_columns<T, 64, 128, 256>(width, exact, launch))
    throw Error(ExitCode::failure, "the GPU's feedback solve takes models up to 256 wide, and this one has " +
                                       std::to_string(width) + "; take a narrower one or --device cpu");
}

template <class T>
OperandOf<T> rows_operand(const Tensor& tensor) {
  return operand_of<T>(tensor, tensor.row_stride, int(tensor.columns()));
}

Pairs feedback_pairs(const FeedbackInputs& in) {
  Pairs pairs{};
  pairs.batch = int(in.f.shape[0]);
  pairs.queries = pairs.keys = int(in.f.shape[1]);
  pairs.heads = pairs.key_heads = 1;
  pairs.offset = 0;  // the strict past
  pairs.scale = float(in.scale);
  return pairs;
}

std::int64_t tiles_of(const FeedbackInputs& in) { return blocks_for(in.f.shape[1], rows); }

Workspace workspace_of(const FeedbackInputs& in, const FeedbackSaved& saved) {
  auto* diagonal = reinterpret_cast<uint4*>(saved.workspace.as<float>());
  const std::int64_t tiles = tiles_of(in);
  return {diagonal, reinterpret_cast<unsigned*>(diagonal + in.f.shape[0] * tiles * Workspace::pieces), int(tiles)};
}

template <class T>
TargetOf<T> rows_target(const Grad& grad, const Tensor& like) {
  return {sink_of<T>(grad), int(like.columns())};
}

/// The operands of a solve; the launch that makes them also clears the counts.
template <class T>
MakingsOf<T> makings_of(const Pairs& pairs, const Workspace& workspace, void* memory) {
  MakingsOf<T> makings(pairs.batch, memory);
  makings.words = workspace.counts;
  makings.word_count = Workspace::count_of(pairs.batch);
  return makings;
}

}  // namespace

Plan CudaBackend::plan(const FeedbackInputs& in) const {
  const std::int64_t batch = in.f.shape[0];
  const Pairs pairs = feedback_pairs(in);
  std::size_t bytes = 0;
  with_model_width<float>(in, precision_ == Precision::fp32, [&](auto columns, auto exact) {
    bytes = backward_operands * padded_rows(pairs.batch, 1, pairs.queries) * row_bytes<columns(), exact()>;
  });
  return {.workspace = batch * tiles_of(in) * 2 * square + Workspace::count_of(int(batch)),
          .operands = std::int64_t(bytes)};
}

void CudaBackend::feedback_solve(const FeedbackInputs& in, const Tensor& s, const FeedbackSaved& saved) {
  if (in.f.elements() == 0) return;
  Pairs pairs = feedback_pairs(in);
  const Workspace workspace = workspace_of(in, saved);
  with_stored_type(in.f, [&]<class T>(T) {
    with_model_width<T>(in, precision_ == Precision::fp32, [&](auto columns, auto exact) {
      constexpr int row = row_bytes<columns(), exact()>;
      auto makings = makings_of<T>(pairs, workspace,
                                   operand_memory(forward_operands * padded_rows(pairs.batch, 1, pairs.queries) * row));
      pairs.q = makings.add(rows_operand<T>(in.q), 1, pairs.queries, row).to;
      pairs.k = makings.add(rows_operand<T>(in.k), 1, pairs.keys, row).to;
      make<columns(), exact()>(stream(), makings);
      const Tiles solution{makings.memory, 1, pairs.q.padded};
      launch("feedback_solve", prepare_kernel<columns(), exact()>, unsigned(pairs.batch * workspace.tiles), block,
             prepare_bytes<columns(), exact()>, stream(), pairs, in.gamma.as<float>(), saved.log_sum.as<float>(),
             workspace);
      const Solve<T> solve{rows_operand<T>(in.f),    solution, rows_of<T>(s).data,
                           saved.routed.as<float>(), nullptr,  in.gamma.as<float>(),
                           saved.log_sum.as<float>()};
      launch_solve<columns(), exact(), false>(stream(), pairs, solve, workspace);
    });
  });
  launched("feedback_solve");
}

void CudaBackend::feedback_solve_backward(const FeedbackInputs& in, const Tensor& s, const FeedbackSaved& saved,
                                          const Tensor& ds, const Tensor& u, const FeedbackGrads& out) {
  if (in.f.elements() == 0) return;
  Pairs pairs = feedback_pairs(in);
  const Workspace workspace = workspace_of(in, saved);
  float* means = scratch(std::size_t(pairs.batch) * pairs.queries);
  with_stored_type(in.f, [&]<class T>(T) {
    const GradientTargets<T> targets{rows_target<T>(out.q, in.q), rows_target<T>(out.k, in.k), {}};
    with_model_width<T>(in, precision_ == Precision::fp32, [&](auto columns, auto exact) {
      constexpr int row = row_bytes<columns(), exact()>;
      auto makings = makings_of<T>(
          pairs, workspace, operand_memory(backward_operands * padded_rows(pairs.batch, 1, pairs.queries) * row));
      MakingOf<T>& queries = makings.add(rows_operand<T>(in.q), 1, pairs.queries, row);
      queries.log_sum = saved.log_sum.as<float>();
      queries.gain = in.gamma.as<float>();
      pairs.q = queries.to;
      pairs.k = makings.add(rows_operand<T>(in.k), 1, pairs.keys, row).to;
      pairs.v = makings.add(rows_operand<T>(s), 1, pairs.keys, row).to;
      make<columns(), exact()>(stream(), makings);
      pairs.dy = {makings.memory, 1, pairs.q.padded};
      const Solve<T> solve{rows_operand<T>(ds),      pairs.dy, rows_of<T>(u).data,
                           saved.routed.as<float>(), means,    in.gamma.as<float>(),
                           saved.log_sum.as<float>()};
      launch_solve<columns(), exact(), true>(stream(), pairs, solve, workspace);
      launch_gradients<columns(), exact(), Sums::slopes, T>(stream(), pairs, targets, "feedback_solve_backward");
    });
  });
  launched("feedback_solve_backward");
  accumulate(Tensor(means, in.gamma.shape, DType::f32), out.gamma);  // u . routed is the gradient of gamma
}

}  // namespace afterglow
