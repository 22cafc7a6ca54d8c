// Sessa's feedback solve. With alpha_d the block of alpha on the diagonal, K = alpha_d (1 - gamma alpha_d)^-1 and W the
// weights of an earlier tile, a tile of 64 tokens is routed = K f + the sum over earlier tiles of (1 + K gamma) W s,
// and s = f + gamma routed. A first kernel takes the logarithms of the softmax and computes every K, all at once. Then
// every block of the grid owns a tile and adds up these products, waiting for each tile of s only when it needs it: the
// way from one tile of s to the next is one product long, everything else is done meanwhile. The gradient solves the
// transposed system the same way from the last token to the first, u = (1 + K' gamma) ds + the sum of (1 + K' gamma) W'
// u, then passes over all pairs as attention does.
#include <algorithm>

#include "core/backend/feedback.h"
#include "gpu/cuda_backend.h"
#include "gpu/cuda_pairs.cuh"

namespace afterglow {

using namespace device;
using namespace device::tiles;

namespace {

constexpr int block = 2 * group_threads;        // threads of the first kernel
constexpr int solve_block = 4 * group_threads;  // threads of the solve
constexpr int square = rows * rows;
constexpr int half = rows / 2;  // streamed rows of a group of warps in the first kernel

/// Workspace: K for every tile of every sequence, then flags.
struct Workspace {
  float* diagonal;  // [B][tiles][64][64]
  unsigned* flags;  // a ticket, then one flag for each tile of each sequence
  int tiles;
  __device__ float* inverse(int b, int tile) const {
    return diagonal + (static_cast<std::size_t>(b) * tiles + tile) * square;
  }
  __device__ unsigned* done(int b, int tile) const { return flags + 1 + b * tiles + tile; }
  unsigned flag_count(int batch) const { return 1 + static_cast<unsigned>(batch * tiles); }
};

/// A square of numbers in shared memory.
struct Square {
  static constexpr int stride = rows + 8;
  float* data;
  __device__ float* row(int i) const { return data + i * stride; }
};

template <int columns>
constexpr int prepare_bytes = std::max(3 * tile_bytes<columns>, 3 * rows * Square::stride * 4);

/// Sum of powers of two, kept as its largest exponent and the sum relative to it.
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
    const float factor = row[j] * gains[j];
    sum.x += factor * x.x;
    sum.y += factor * x.y;
    sum.z += factor * x.z;
    sum.w += factor * x.w;
  }
  return sum;
}

/// K = alpha + alpha gains K: blocks of 16 rows on the diagonal row by row, all at once, then twice the corners below
/// two neighbours a and b: (1 + K_b gains) alpha_ba (1 + gains K_a).
__device__ inline void invert(const Square& alpha, const float* gains, const Square& inverse, const Square& scratch) {
  constexpr int small = 16;
  const int thread = static_cast<int>(threadIdx.x), column = thread / 4, part = thread % 4;
  for (int i = thread; i < rows * Square::stride; i += block) inverse.data[i] = 0.0f;
  __syncthreads();
  const int base = column / small * small;  // four threads share a column, a warp has whole columns of one block
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

template <int columns, bool exact>
__global__ void __launch_bounds__(block)
    prepare_kernel(Pairs in, const float* gain, float* log_sum, Workspace workspace) {
  await_previous();
  extern __shared__ float4 memory[];
  __shared__ float largest[2][rows], totals[2][rows], logs[rows], gains[rows];
  std::byte* const q = reinterpret_cast<std::byte*>(memory);
  const auto k = [&](int key) { return q + (1 + key / rows % 2) * tile_bytes<columns>; };
  const Lane lane;
  const int thread = static_cast<int>(threadIdx.x), share = lane.group * half;
  const int tile = workspace.tiles - 1 - static_cast<int>(blockIdx.x) / in.batch, b = blockIdx.x % in.batch;
  const int first = tile * rows, count = min(rows, in.queries - first);
  const std::size_t row0 = static_cast<std::size_t>(b) * in.queries;
  copy<tile_bytes<columns>>(q, in.q.at<columns>(b, 0, first));
  copy<tile_bytes<columns>>(k(0), in.k.at<columns>(b, 0, 0));
  commit();
  PowerSum sums[2];
  Share<half> score;
  for (int key = 0; key <= first; key += rows) {
    wait<0>();
    __syncthreads();
    if (key < first) copy<tile_bytes<columns>>(k(key + rows), in.k.at<columns>(b, 0, key + rows));
    commit();
    dot<exact, columns>(lane, q, k(key) + share * row_bytes<columns>, in.power_scale(), score);
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
#pragma unroll
    for (int r = 0; r < 2; ++r) sums[r].join(top[r], part[r]);
  }
#pragma unroll
  for (int r = 0; r < 2; ++r) {
#pragma unroll
    for (int offset = 1; offset < 4; offset *= 2)
      sums[r].join(__shfl_xor_sync(full_warp, sums[r].largest, offset),
                   __shfl_xor_sync(full_warp, sums[r].total, offset));
    if (lane.part == 0) {
      largest[lane.group][lane.row_of(r)] = sums[r].largest;
      totals[lane.group][lane.row_of(r)] = sums[r].total;
    }
  }
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
  for (int i = thread; i < square; i += block) {
    const int row = i / rows, column = i % rows;
    workspace.inverse(b, tile)[i] = inverse.row(row)[column];
  }
}

struct Solve {
  Operand from;   ///< right-hand side: f, or ds
  Tiles tiles;    ///< s, or u, for the blocks that wait for it
  float* to;      ///< the same as rows [B,T,F]
  float* routed;  ///< forward: written; transposed: read
  float* means;   ///< transposed only: u . routed
  const float* gain;
  const float* log_sum;
};

__device__ inline bool is_set(const unsigned* flag) {
  unsigned value;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(flag) : "memory");
  return value != 0;
}
__device__ inline void set(unsigned* flag) {
  asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(flag), "r"(1u) : "memory");
}

// Squares of weights [own row][other row] in shared memory: rows of 64 numbers in either form, as in tiles. None is
// larger than 1, so they are scaled alike.
constexpr float largest_weight = 16384.0f;
constexpr int square_bytes = tile_bytes<rows>;

/// Columns of a square from `first` on; tf32 numbers lie in the order of the slots that Weights have.
template <bool exact, int width>
__device__ void store_square(const Lane& lane, const Share<width>& weights, int first, std::byte* to) {
#pragma unroll
  for (int n = 0; n < width / 8; ++n)
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      auto* words = reinterpret_cast<std::uint32_t*>(to + lane.row_of(r) * row_bytes<rows>);
      const float x = weights.at(n, r, 0), y = weights.at(n, r, 1);
      if constexpr (exact) {
        auto* place = words + (first + lane.column_of(n, 0)) / 2;
        split(x * largest_weight, y * largest_weight, place[0], place[rows / 2]);
      } else {
        auto* place = words + first + 8 * n + lane.part;
        place[0] = tf32_of(x);
        place[4] = tf32_of(y);
      }
    }
}

/// The warp's rows of a square, to be multiplied with rows of this unit.
template <bool exact>
__device__ Weights<exact, rows> load_square(const Lane& lane, const std::byte* from, float unit) {
  Weights<exact, rows> to;
  const int place = static_cast<int>(threadIdx.x % 32);
  const unsigned address = shared_address(from + (lane.warp_row + place % 16) * row_bytes<rows> + place / 16 * 16);
#pragma unroll
  for (int k = 0; k < Weights<exact, rows>::steps; ++k) {
    load_matrices(address + k * 32, to.big[k]);
    if constexpr (exact) load_matrices(address + k * 32 + rows * 2, to.rest[k]);
  }
  to.back[0] = to.back[1] = unit / largest_weight;
  return to;
}

/// Writes columns of the warp's rows as rows of a tile, all in one unit.
template <int columns, bool exact, int width>
__device__ void write_rows(const Lane& lane, const Share<width>& from, int first, const Scale& scale, std::byte* tile) {
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    std::byte* row = tile + lane.row_of(r) * row_bytes<columns>;
#pragma unroll
    for (int n = 0; n < width / 8; ++n) {
      const float pair[2] = {from.at(n, r, 0), from.at(n, r, 1)};
      write_part<columns, exact>(row, first + lane.column_of(n, 0), pair, scale);
    }
    if (first == 0 && lane.part == 0) *reinterpret_cast<float*>(row + columns * 4) = exact ? scale.down : 1.0f;
  }
}

/// Reads columns of the warp's rows from `first` on; zeros beyond `count` rows and the rows' width.
template <int width>
__device__ void read_rows(const Lane& lane, const Operand& from, std::size_t row0, int count, int first,
                          Share<width>& to) {
#pragma unroll
  for (int n = 0; n < width / 8; ++n)
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int row = lane.row_of(r), column = first + lane.column_of(n, 0);
      const float* place = from.at(row0 + row, 0) + column;
      float2 pair = make_float2(0, 0);
      if (row < count && column + 1 < from.width && from.aligned) {
        pair = *reinterpret_cast<const float2*>(place);
      } else if (row < count) {
        if (column < from.width) pair.x = place[0];
        if (column + 1 < from.width) pair.y = place[1];
      }
      to.at(n, r, 0) = pair.x;
      to.at(n, r, 1) = pair.y;
    }
}

/// The largest number that any thread of the solve has; `shared` holds one for each warp.
template <int width>
__device__ float largest_of(const Share<width>& from, float* shared) {
  float peak = 0;
#pragma unroll
  for (int i = 0; i < width / 2; ++i) peak = fmaxf(peak, fabsf(from.value[i / 4][i % 4]));
  peak = warp_max(peak);
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = peak;
  __syncthreads();
#pragma unroll
  for (int warp = 0; warp < solve_block / 32; ++warp) peak = fmaxf(peak, shared[warp]);
  return peak;
}

/// Shared memory of the solve. Squares of weights take the place of the streamed tile.
template <int columns>
constexpr int streamed_bytes = std::max(tile_bytes<columns>, 2 * square_bytes);
template <int columns>
constexpr int solve_bytes = 2 * tile_bytes<columns> + streamed_bytes<columns> + square_bytes;

/// Forward: own tokens are queries, streamed tiles keys with their s, from the first to the one before. Transposed: own
/// tokens are keys, streamed tiles queries with their u, from the last to the one behind. For scores the four groups of
/// warps share the streamed rows, for the products with s or u they share the columns.
template <int columns, bool exact, bool transposed>
__global__ void __launch_bounds__(solve_block) solve_kernel(Pairs in, Solve solve, Workspace workspace) {
  await_previous();
  constexpr int part_columns = columns / 4, part_rows = rows / 4;
  extern __shared__ float4 memory[];
  __shared__ float gains[rows], exchanged[4][rows], peaks[2][solve_block / 32];
  __shared__ unsigned ticket;
  __shared__ bool there;
  std::byte* const own = reinterpret_cast<std::byte*>(memory);
  std::byte* const solved = own + tile_bytes<columns>;
  std::byte* const inverse = solved + tile_bytes<columns>;
  std::byte* const streamed = inverse + square_bytes;
  std::byte *const plain_weights = streamed, *const weights = streamed + square_bytes;
  const Lane lane;
  const int thread = static_cast<int>(threadIdx.x), share = lane.group * part_rows, part = lane.group * part_columns;
  // Tiles are taken in the order in which they can be solved: those that a block waits for belong to running blocks.
  if (thread == 0) ticket = atomicAdd(workspace.flags, 1u);
  __syncthreads();
  const int b = static_cast<int>(ticket) % in.batch, steps = static_cast<int>(ticket) / in.batch;
  const int tile = transposed ? workspace.tiles - 1 - steps : steps;
  const int first = tile * rows, count = min(rows, in.queries - first), width = solve.from.width;
  const std::size_t row0 = static_cast<std::size_t>(b) * in.queries + first;
  const auto tile_at = [&](int step) { return transposed ? workspace.tiles - 1 - step : step; };
  const auto begin_streamed = [&](int step) {
    if (step < steps)
      copy<tile_bytes<columns>>(streamed, (transposed ? in.q : in.k).at<columns>(b, 0, tile_at(step) * rows));
    commit();
  };
  const auto begin_solved = [&](int step) {
    copy<tile_bytes<columns>>(solved, solve.tiles.at<columns>(b, 0, tile_at(step) * rows));
    commit();
  };
  const auto inside = [&](int r, int column) { return lane.row_of(r) < count && column < width; };
  const auto place_of = [&](int n, int r, int e) {
    return (row0 + lane.row_of(r)) * width + part + lane.column_of(n, e);
  };

  if (steps > 0) copy<tile_bytes<columns>>(own, (transposed ? in.k : in.q).at<columns>(b, 0, first));
  begin_streamed(0);
  if (thread < rows) gains[thread] = thread < count ? solve.gain[row0 + thread] : 0.0f;
  float logs[2];
#pragma unroll
  for (int r = 0; r < 2; ++r)
    logs[r] = !transposed && lane.row_of(r) < count ? solve.log_sum[row0 + lane.row_of(r)] * 1.44269504f : 0.0f;
  __syncthreads();

  // What the tile's own right-hand side gives.
  Share<part_columns> sum;
  {
    Share<part_rows> numbers;
    const float* from = workspace.inverse(b, tile);
    numbers.each([&](int n, int r, int e, float) {
      const int row = lane.row_of(r), column = share + lane.column_of(n, e);
      return transposed ? from[column * rows + row] : from[row * rows + column];
    });
    store_square<true>(lane, numbers, share, inverse);
    Share<part_columns> given;
    read_rows(lane, solve.from, row0, count, part, given);
    sum = given;
    if (transposed) given.each([&](int, int r, int, float value) { return value * gains[lane.row_of(r)]; });
    const Scale scale(largest_of(given, peaks[0]));
    write_rows<columns, true>(lane, given, part, scale, solved);
    __syncthreads();
    if (!transposed) sum.clear();
    add_weighted<true, columns>(lane, load_square<true>(lane, inverse, scale.down), solved, part, sum);
  }

  for (int step = 0; step < steps; ++step) {
    wait<0>();
    if (thread == 0) there = is_set(workspace.done(b, tile_at(step)));
    __syncthreads();
    const bool early = there;
    if (early) begin_solved(step);
    Share<part_rows> weight;
    const std::byte* from = streamed + share * row_bytes<columns>;
    dot<exact, columns>(lane, own, from, in.power_scale(), weight);
    weight.each([&](int n, int r, int e, float value) {
      if (!transposed) return exp2f(value - logs[r]);
      const Notes& query = notes_of<columns>(from, lane.column_of(n, e));
      return exp2f(value - query.log_sum) * query.gain;
    });
    __syncthreads();
    Share<part_rows> gained = weight;
    gained.each([&](int, int r, int, float value) { return value * gains[lane.row_of(r)]; });
    store_square<true>(lane, gained, share, plain_weights);
    __syncthreads();
    add_weighted<true, rows>(lane, load_square<true>(lane, inverse, 1.0f / largest_weight), plain_weights, share,
                             weight);
    store_square<exact>(lane, weight, share, weights);
    __syncthreads();
    Weights<exact, rows> left = load_square<exact>(lane, weights, 1.0f);
    __syncthreads();
    begin_streamed(step + 1);
    if (early) {
      wait<1>();
    } else {
      if (thread == 0) {
        while (!is_set(workspace.done(b, tile_at(step)))) __nanosleep(20);
      }
      __syncthreads();
      begin_solved(step);
      wait<0>();
    }
    __syncthreads();
    left.back[0] = left.back[1] = notes_of<columns>(solved, 0).unit / largest_weight;
    add_weighted<exact, columns>(lane, left, solved, part, sum);
  }

  Share<part_columns> answer = sum;
  if (!transposed) {
    read_rows(lane, solve.from, row0, count, part, answer);
    answer.each([&](int n, int r, int e, float value) { return value + gains[lane.row_of(r)] * sum.at(n, r, e); });
  }
  const Scale scale(largest_of(answer, peaks[1]));
  write_rows<columns, exact>(lane, answer, part, scale, own);
  __syncthreads();
  std::byte* const solution = solve.tiles.at<columns>(b, 0, first);
  for (int i = thread * 16; i < tile_bytes<columns>; i += solve_block * 16)
    *reinterpret_cast<uint4*>(solution + i) = *reinterpret_cast<const uint4*>(own + i);
  __threadfence();
  __syncthreads();
  if (thread == 0) set(workspace.done(b, tile));

  float mean[2] = {0, 0};
  answer.each([&](int n, int r, int e, float value) {
    if (!inside(r, part + lane.column_of(n, e))) return value;
    const std::size_t place = place_of(n, r, e);
    solve.to[place] = value;
    if (transposed) {
      mean[r] += value * solve.routed[place];
    } else {
      solve.routed[place] = sum.at(n, r, e);
    }
    return value;
  });
  if constexpr (transposed) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      mean[r] = quad_sum(mean[r]);
      if (lane.part == 0) exchanged[lane.group][lane.row_of(r)] = mean[r];
    }
    __syncthreads();
    if (thread >= rows) return;
    const float whole = exchanged[0][thread] + exchanged[1][thread] + exchanged[2][thread] + exchanged[3][thread];
    if (thread < count) solve.means[row0 + thread] = whole;
    reinterpret_cast<Notes*>(solution + thread * row_bytes<columns> + columns * 4)->mean = whole;
  }
}

template <int columns, bool exact>
void launch_prepare(cudaStream_t stream, const Pairs& in, const float* gain, float* log_sum,
                    const Workspace& workspace) {
  constexpr int bytes = prepare_bytes<columns>;
  const auto kernel = prepare_kernel<columns, exact>;
  allow_shared_memory(reinterpret_cast<const void*>(kernel), bytes, "feedback_solve");
  launch(kernel, static_cast<unsigned>(in.batch * workspace.tiles), block, bytes, stream, in, gain, log_sum, workspace);
}

template <int columns, bool exact, bool transposed>
void launch_solve(cudaStream_t stream, const Pairs& in, const Solve& solve, const Workspace& workspace) {
  constexpr int bytes = solve_bytes<columns>;
  const auto kernel = solve_kernel<columns, exact, transposed>;
  allow_shared_memory(reinterpret_cast<const void*>(kernel), bytes, "feedback_solve");
  launch(kernel, static_cast<unsigned>(in.batch * workspace.tiles), solve_block, bytes, stream, in, solve, workspace);
}

template <class Launch>
void with_model_width(const FeedbackInputs& in, bool exact, const Launch& launch) {
  const std::int64_t width = std::max(in.q.shape[2], in.f.shape[2]);
  if (!with_columns<64, 128, 256>(width, exact, launch))
    throw Error(ExitCode::failure, "the GPU's feedback solve takes models up to 256 wide, and this one has " +
                                       std::to_string(width) + "; take a narrower one or --device cpu");
}

Operand rows_operand(const Tensor& tensor) {
  return operand_of(tensor, tensor.row_stride, static_cast<int>(tensor.columns()));
}

Pairs feedback_pairs(const FeedbackInputs& in) {
  Pairs pairs{};
  pairs.batch = static_cast<int>(in.f.shape[0]);
  pairs.queries = pairs.keys = static_cast<int>(in.f.shape[1]);
  pairs.heads = pairs.key_heads = 1;
  pairs.offset = 0;  // the strict past
  pairs.scale = static_cast<float>(in.scale);
  return pairs;
}

std::int64_t tiles_of(const FeedbackInputs& in) { return blocks_for(in.f.shape[1], rows); }

Workspace workspace_of(const FeedbackInputs& in, const FeedbackSaved& saved) {
  auto* diagonal = saved.workspace.as<float>();
  const std::int64_t tiles = tiles_of(in);
  return {diagonal, reinterpret_cast<unsigned*>(diagonal + in.f.shape[0] * tiles * square), static_cast<int>(tiles)};
}

Target rows_target(const Grad& grad, const Tensor& like) { return {sink_of(grad), static_cast<int>(like.columns())}; }

/// Makings of a solve, which also clear its flags.
Makings makings_of(const Pairs& pairs, const Workspace& workspace, void* memory) {
  Makings makings(pairs.batch, memory);
  makings.words = workspace.flags;
  makings.word_count = workspace.flag_count(pairs.batch);
  return makings;
}

}  // namespace

std::int64_t CudaBackend::feedback_solve_workspace(const FeedbackInputs& in) const {
  const std::int64_t tiles = in.f.shape[0] * tiles_of(in);
  return tiles * square + 1 + tiles;
}

void CudaBackend::feedback_solve(const FeedbackInputs& in, const Tensor& s, const FeedbackSaved& saved) {
  if (in.f.elements() == 0) return;
  Pairs pairs = feedback_pairs(in);
  const Workspace workspace = workspace_of(in, saved);
  with_model_width(in, precision_ == Precision::fp32, [&](auto columns, auto exact) {
    constexpr int row = row_bytes<columns()>;
    Makings makings =
        makings_of(pairs, workspace, operand_memory(3 * padded_rows(pairs.batch, 1, pairs.queries) * row));
    pairs.q = makings.add(rows_operand(in.q), 1, pairs.queries, row).to;
    pairs.k = makings.add(rows_operand(in.k), 1, pairs.keys, row).to;
    make<columns(), exact()>(stream(), makings);
    const Tiles solution{makings.memory, 1, pairs.q.padded};
    launch_prepare<columns(), exact()>(stream(), pairs, in.gamma.as<float>(), saved.log_sum.as<float>(), workspace);
    launch_solve<columns(), exact(), false>(stream(), pairs,
                                            {rows_operand(in.f), solution, s.as<float>(), saved.routed.as<float>(),
                                             nullptr, in.gamma.as<float>(), saved.log_sum.as<float>()},
                                            workspace);
  });
  launched("feedback_solve");
}

void CudaBackend::feedback_solve_backward(const FeedbackInputs& in, const Tensor& s, const FeedbackSaved& saved,
                                          const Tensor& ds, const Tensor& u, const FeedbackGrads& out) {
  if (in.f.elements() == 0) return;
  Pairs pairs = feedback_pairs(in);
  const Workspace workspace = workspace_of(in, saved);
  float* means = scratch(static_cast<std::size_t>(pairs.batch) * pairs.queries);
  with_model_width(in, precision_ == Precision::fp32, [&](auto columns, auto exact) {
    constexpr int row = row_bytes<columns()>;
    Makings makings =
        makings_of(pairs, workspace, operand_memory(4 * padded_rows(pairs.batch, 1, pairs.queries) * row));
    Making& queries = makings.add(rows_operand(in.q), 1, pairs.queries, row);
    queries.log_sum = saved.log_sum.as<float>();
    queries.gain = in.gamma.as<float>();
    pairs.q = queries.to;
    pairs.k = makings.add(rows_operand(in.k), 1, pairs.keys, row).to;
    pairs.v = makings.add(rows_operand(s), 1, pairs.keys, row).to;
    make<columns(), exact()>(stream(), makings);
    pairs.dy = {makings.memory, 1, pairs.q.padded};
    launch_solve<columns(), exact(), true>(stream(), pairs,
                                           {rows_operand(ds), pairs.dy, u.as<float>(), saved.routed.as<float>(), means,
                                            in.gamma.as<float>(), saved.log_sum.as<float>()},
                                           workspace);
    launch_gradients<columns(), exact(), Sums::slopes>(
        stream(), pairs, {rows_target(out.q, in.q), rows_target(out.k, in.k), {}}, "feedback_solve_backward");
  });
  launched("feedback_solve_backward");
  accumulate(Tensor(means, in.gamma.shape, DType::f32), out.gamma);  // u . routed is the gradient of gamma
  accumulate(u, out.f);
}

}  // namespace afterglow
