// Sessa's feedback solve: a first kernel takes the logarithms of the softmax and inverts the 64 x 64 blocks on the
// diagonal, all at once. Then every block of the grid owns 64 tokens and adds up what earlier tokens send them, waiting
// for each tile of s only when it needs it. All that does not need the tile just before is done meanwhile, the product
// with the inverse too: the way from one tile of s to the next is one product long. The gradient solves the
// transposed system the same way from the last token to the first, then passes over all pairs as attention does.
#include <algorithm>

#include "core/backend/feedback.h"
#include "gpu/cuda_backend.h"
#include "gpu/cuda_pairs.cuh"

namespace afterglow {

using namespace device;
using namespace device::tiles;

namespace {

constexpr int block = 2 * group_threads;  // threads
constexpr int square = rows * rows;
constexpr int half = rows / 2;  // streamed rows of a group of warps

/// Workspace: for every tile of every sequence alpha on the diagonal and what the inverse of I - B there has besides
/// ones on its diagonal, then flags.
struct Workspace {
  float* diagonal;  // [B][tiles][2][64][64]
  unsigned* flags;  // a ticket, then one flag for each tile of each sequence
  int tiles;
  __device__ float* alpha(int b, int tile) const {
    return diagonal + (static_cast<std::size_t>(b) * tiles + tile) * 2 * square;
  }
  __device__ float* inverse(int b, int tile) const { return alpha(b, tile) + square; }
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
constexpr int solve_bytes = 3 * tile_bytes<columns>;
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

/// sum + the product of `count` numbers of a row, from `first` on, with those rows' four columns from `column` on.
__device__ inline float4 add_product(const float* row, const Square& right, int first, int count, int column,
                                     float4 sum) {
#pragma unroll 4
  for (int j = first; j < first + count; ++j) {
    const float4 x = *reinterpret_cast<const float4*>(right.row(j) + column);
    sum.x += row[j] * x.x;
    sum.y += row[j] * x.y;
    sum.z += row[j] * x.z;
    sum.w += row[j] * x.w;
  }
  return sum;
}

/// inverse = (1 - G)^-1 - 1 with G = gains alpha: blocks of 16 rows on the diagonal row by row, all at once, then twice
/// the corners below two neighbours a and b, which are (1 + inverse_b) G_ba (1 + inverse_a).
__device__ inline void invert(const Square& alpha, const float* gains, const Square& inverse, const Square& scratch) {
  constexpr int small = 16;
  const int thread = static_cast<int>(threadIdx.x), column = thread / 4, part = thread % 4;
  for (int i = thread; i < rows * Square::stride; i += block) inverse.data[i] = 0.0f;
  __syncthreads();
  const int base = column / small * small;  // four threads share a column, a warp has whole columns of one block
  for (int row = base + 1; row < base + small; ++row) {
    float sum = 0;
    for (int j = base + part; j < row; j += 4) sum += alpha.row(row)[j] * inverse.row(j)[column];
    sum += __shfl_xor_sync(full_warp, sum, 1);
    sum += __shfl_xor_sync(full_warp, sum, 2);
    if (part == 0 && column < row) inverse.row(row)[column] = gains[row] * (alpha.row(row)[column] + sum);
    __syncwarp();
  }
  for (int size = small; size < rows; size *= 2) {
    __syncthreads();
    const int fours = size / 4, pair = thread / (size * fours), first = pair * 2 * size;
    const int row = first + size + thread / fours % size, place = first + thread % fours * 4;
    const bool has_part = first < rows;
    auto* const corner = reinterpret_cast<float4*>(scratch.row(has_part ? row : 0) + place % rows);
    if (has_part) {
      const float4 given = *reinterpret_cast<const float4*>(alpha.row(row) + place);
      const float4 sum = add_product(alpha.row(row), inverse, first, size, place, given);
      *corner = make_float4(gains[row] * sum.x, gains[row] * sum.y, gains[row] * sum.z, gains[row] * sum.w);
    }
    __syncthreads();
    if (has_part)
      *reinterpret_cast<float4*>(inverse.row(row) + place) =
          add_product(inverse.row(row), scratch, first + size, size, place, *corner);
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
    workspace.alpha(b, tile)[i] = alpha.row(row)[column];
    workspace.inverse(b, tile)[i] = column < row ? inverse.row(row)[column] : 0.0f;
  }
}

struct Solve {
  Operand from;  ///< right-hand side: f, or ds
  Tiles tiles;   ///< s, or u, for the blocks that wait for it
  float* to;     ///< the same as rows [B,T,F]
  float* routed;
  float* means;  ///< transposed only: u . routed
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

/// Weights [own row][streamed row] of a tile in shared memory: 64 columns in split form; a softmax's weight is at
/// most 1.
constexpr float largest_weight = 16384.0f;

template <int width>
__device__ void store_weights(const Lane& lane, const Share<width>& weights, int first, std::byte* to) {
#pragma unroll
  for (int n = 0; n < width / 8; ++n)
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      std::byte* row = to + lane.row_of(r) * row_bytes<rows>;
      auto* place = reinterpret_cast<std::uint32_t*>(row + (first + lane.column_of(n, 0)) * 2);
      split(weights.at(n, r, 0) * largest_weight, weights.at(n, r, 1) * largest_weight, place[0], place[rows / 2]);
    }
  if (lane.group == 0 && lane.part == 0) {
#pragma unroll
    for (int r = 0; r < 2; ++r)
      *reinterpret_cast<float*>(to + lane.row_of(r) * row_bytes<rows> + rows * 4) = 1.0f / largest_weight;
  }
}

/// Numbers of split rows: `width` columns from `first` on of the warp's rows.
template <int columns, int width>
__device__ void read_rows(const Lane& lane, const std::byte* tile, int first, Share<width>& to) {
#pragma unroll
  for (int n = 0; n < width / 8; ++n)
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const std::byte* row = tile + lane.row_of(r) * row_bytes<columns>;
      const auto* place = reinterpret_cast<const std::uint32_t*>(row + (first + lane.column_of(n, 0)) * 2);
      const float2 pair = joined_halves(place[0], place[columns / 2]);
      const float unit = notes_of<columns>(tile, lane.row_of(r)).unit;
      to.at(n, r, 0) = pair.x * unit;
      to.at(n, r, 1) = pair.y * unit;
    }
}

/// Writes the warp's rows as rows of a tile; `peak` is each whole row's largest number.
template <int columns, bool exact, int width>
__device__ void write_rows(const Lane& lane, const Share<width>& from, const float (&peak)[2], int first,
                           std::byte* tile) {
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const Scale scale(peak[r]);
    std::byte* row = tile + lane.row_of(r) * row_bytes<columns>;
#pragma unroll
    for (int n = 0; n < width / 8; ++n) {
      const float pair[2] = {from.at(n, r, 0), from.at(n, r, 1)};
      write_part<columns, exact>(row, first + lane.column_of(n, 0), pair, scale);
    }
    if (first == 0 && lane.part == 0) *reinterpret_cast<float*>(row + columns * 4) = exact ? scale.down : 1.0f;
  }
}

template <int width>
__device__ void row_peaks(const Share<width>& from, float (&peak)[2]) {
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    peak[r] = 0;
#pragma unroll
    for (int n = 0; n < width / 8; ++n)
      peak[r] = fmaxf(peak[r], fmaxf(fabsf(from.at(n, r, 0)), fabsf(from.at(n, r, 1))));
    peak[r] = quad_max(peak[r]);
  }
}

/// Forward: own tokens are queries, streamed tiles keys with their s, from the first to the one before. Transposed: own
/// tokens are keys, streamed tiles queries with their u, from the last to the one behind.
template <int columns, bool exact, bool transposed>
__global__ void __launch_bounds__(block) solve_kernel(Pairs in, Solve solve, Workspace workspace) {
  await_previous();
  constexpr int part_columns = columns / 2;  // of a warp's product with the inverse
  extern __shared__ float4 memory[];
  __shared__ float gains[rows], exchanged[2][rows];
  __shared__ unsigned ticket;
  __shared__ bool there;
  std::byte* const own = reinterpret_cast<std::byte*>(memory);
  std::byte* const streamed = own + tile_bytes<columns>;
  std::byte* const solved = streamed + tile_bytes<columns>;
  // Once all scores are known:
  std::byte* const last_weights = own;
  std::byte* const known = streamed;  // right-hand side, then what became of it
  const Lane lane;
  const int thread = static_cast<int>(threadIdx.x), share = lane.group * half, own_part = lane.group * part_columns;
  // Tiles are taken in the order in which they can be solved: those that a block waits for belong to running blocks.
  if (thread == 0) ticket = atomicAdd(workspace.flags, 1u);
  __syncthreads();
  const int b = static_cast<int>(ticket) % in.batch, turn = static_cast<int>(ticket) / in.batch;
  const int tile = transposed ? workspace.tiles - 1 - turn : turn;
  const int first = tile * rows, count = min(rows, in.queries - first);
  const std::size_t row0 = static_cast<std::size_t>(b) * in.queries + first;
  const int width = solve.from.width;
  const auto tile_at = [&](int step) { return transposed ? workspace.tiles - 1 - step : step; };
  const auto begin_streamed = [&](int step) {
    copy<tile_bytes<columns>>(streamed, (transposed ? in.q : in.k).at<columns>(b, 0, tile_at(step) * rows));
    commit();
  };
  const auto begin_solved = [&](int step) {
    copy<tile_bytes<columns>>(solved, solve.tiles.at<columns>(b, 0, tile_at(step) * rows));
    commit();
  };
  const auto await_solved = [&](int step) {
    if (thread == 0) {
      while (!is_set(workspace.done(b, tile_at(step)))) __nanosleep(20);
    }
    __syncthreads();
    begin_solved(step);
    wait<0>();
  };
  const auto inside = [&](int r, int column) { return lane.row_of(r) < count && column < width; };
  const auto place_of = [&](int r, int column) { return (row0 + lane.row_of(r)) * width + column; };

  const int steps = turn;
  if (thread < rows) gains[thread] = !transposed && thread < count ? solve.gain[row0 + thread] : 1.0f;
  float logs[2];
#pragma unroll
  for (int r = 0; r < 2; ++r)
    logs[r] = !transposed && lane.row_of(r) < count ? solve.log_sum[row0 + lane.row_of(r)] * 1.44269504f : 0.0f;
  if (steps > 0) {
    copy<tile_bytes<columns>>(own, (transposed ? in.k : in.q).at<columns>(b, 0, first));
    begin_streamed(0);
  }
  Share<columns> sum;
  sum.clear();
  Share<half> weight;
  weight.clear();
  const auto weigh = [&] {
    const std::byte* from = streamed + share * row_bytes<columns>;
    dot<exact, columns>(lane, own, from, in.power_scale(), weight);
    weight.each([&](int n, int r, int e, float value) {
      if (!transposed) return exp2f(value - logs[r]);
      const Notes& query = notes_of<columns>(from, lane.column_of(n, e));
      return exp2f(value - query.log_sum) * query.gain;
    });
  };
  for (int step = 0; step + 1 < steps; ++step) {
    wait<0>();
    if (thread == 0) there = is_set(workspace.done(b, tile_at(step)));
    __syncthreads();
    const bool early = there;
    if (early) begin_solved(step);
    weigh();
    __syncthreads();
    begin_streamed(step + 1);
    if (early) {
      wait<1>();
    } else {
      await_solved(step);
    }
    __syncthreads();
    spread<exact, columns>(lane, weight, solved + share * row_bytes<columns>, 0, sum);
  }
  if (steps > 0) {
    wait<0>();
    __syncthreads();
    weigh();
  }
  __syncthreads();  // own, streamed and solved have been read

  if (steps > 0) store_weights(lane, weight, share, last_weights);
  join_groups(lane, sum, solved);
  if (lane.group == 0) {
    sum.each([&](int n, int r, int e, float value) {
      const int row = lane.row_of(r), column = lane.column_of(n, e);
      if (!inside(r, column)) return 0.0f;
      if (!transposed) solve.routed[place_of(r, column)] = value;
      return solve.from.at(row0 + row, 0)[column] + gains[row] * value;
    });
    float peak[2];
    row_peaks(sum, peak);
    write_rows<columns, true>(lane, sum, peak, 0, known);
  }
  __syncthreads();

  // answer = inverse (right-hand side + gains last_weights s_before), with s_before not yet known.
  Share<part_columns> answer;
  Share<rows> to_last;
  {
    Share<rows> inverse;
    const float* numbers = workspace.inverse(b, tile);
    inverse.each([&](int n, int r, int e, float) {
      const int row = lane.row_of(r), column = lane.column_of(n, e);
      return transposed ? numbers[column * rows + row] : numbers[row * rows + column];
    });
    read_rows<columns>(lane, known, own_part, answer);
    spread<true, columns>(lane, inverse, known, own_part, answer);
    if (steps > 0) {
      inverse.each([&](int n, int, int e, float value) { return value * gains[lane.column_of(n, e)]; });
      read_rows<rows>(lane, last_weights, 0, to_last);
      to_last.each([&](int, int r, int, float value) { return value * gains[lane.row_of(r)]; });
      spread<true, rows>(lane, inverse, last_weights, 0, to_last);
      await_solved(steps - 1);
      __syncthreads();
      spread<exact, columns>(lane, to_last, solved, own_part, answer);
    }
  }
  float peak[2];
  row_peaks(answer, peak);
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    if (lane.part == 0) exchanged[lane.group][lane.row_of(r)] = peak[r];
  }
  __syncthreads();
#pragma unroll
  for (int r = 0; r < 2; ++r) peak[r] = fmaxf(peak[r], exchanged[1 - lane.group][lane.row_of(r)]);
  write_rows<columns, exact>(lane, answer, peak, own_part, solve.tiles.at<columns>(b, 0, first));
  __threadfence();
  __syncthreads();
  if (thread == 0) set(workspace.done(b, tile));

  answer.each([&](int n, int r, int e, float value) {
    const int column = own_part + lane.column_of(n, e);
    if (inside(r, column)) solve.to[place_of(r, column)] = value;
    return value;
  });
  if constexpr (transposed) {
    float mean[2] = {0, 0};
    answer.each([&](int n, int r, int e, float value) {
      const int column = own_part + lane.column_of(n, e);
      if (inside(r, column)) mean[r] += value * solve.routed[place_of(r, column)];
      return value;
    });
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      mean[r] = quad_sum(mean[r]);
      if (lane.group == 1 && lane.part == 0) exchanged[1][lane.row_of(r)] = mean[r];
    }
    __syncthreads();
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int row = lane.row_of(r);
      if (lane.group == 1 || lane.part != 0) continue;
      mean[r] += exchanged[1][row];
      if (row < count) solve.means[row0 + row] = mean[r];
      reinterpret_cast<Notes*>(solve.tiles.at<columns>(b, 0, first + row) + columns * 4)->mean = mean[r];
    }
  } else {
    // What the tile before and the tokens of the tile itself have sent.
    write_rows<columns, true>(lane, answer, peak, own_part, known);
    __syncthreads();
    answer.clear();
    if (steps > 0) {
      read_rows<rows>(lane, last_weights, 0, to_last);
      spread<exact, columns>(lane, to_last, solved, own_part, answer);
    }
    const float* numbers = workspace.alpha(b, tile);
    to_last.each([&](int n, int r, int e, float) { return numbers[lane.row_of(r) * rows + lane.column_of(n, e)]; });
    spread<true, columns>(lane, to_last, known, own_part, answer);
    answer.each([&](int n, int r, int e, float value) {
      const int column = own_part + lane.column_of(n, e);
      if (inside(r, column)) solve.routed[place_of(r, column)] += value;
      return value;
    });
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
  launch(kernel, static_cast<unsigned>(in.batch * workspace.tiles), block, bytes, stream, in, solve, workspace);
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
  return {diagonal, reinterpret_cast<unsigned*>(diagonal + in.f.shape[0] * tiles * 2 * square),
          static_cast<int>(tiles)};
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
  return tiles * 2 * square + 1 + tiles;
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
