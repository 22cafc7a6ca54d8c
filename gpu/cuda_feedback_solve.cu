// Sessa's feedback solve: a first kernel takes the logarithms of the softmax and inverts the 64 x 64 blocks on the
// diagonal, all at once. Then every block of the grid owns 64 tokens, adds up what earlier tokens send them, waiting
// for each tile of s only when it needs it, and finishes with a product with the inverse. The way from one tile of s
// to the next is two products long; everything else is done meanwhile. The gradient solves the transposed system the
// same way from the last token to the first, then passes over all pairs as attention does.
#include "core/backend/feedback.h"
#include "gpu/cuda_backend.h"
#include "gpu/cuda_pairs.cuh"

namespace afterglow {

using namespace device;
using namespace device::tiles;

namespace {

constexpr int square = rows * rows;

/// Workspace: for every tile of every sequence alpha on the diagonal and the inverse of I - B there, then flags.
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

template <int columns>
constexpr int prepare_bytes = 3 * Tile<columns>::size * 4;
/// The tile of own tokens makes room for the inverse later.
template <int columns>
constexpr int own_size = Tile<columns>::size > Weights<rows>::size ? Tile<columns>::size : Weights<rows>::size;
template <int columns>
constexpr int solve_bytes = (own_size<columns> + 2 * Tile<columns>::size + Weights<rows>::size) * 4;

/// log of a sum of exponentials, kept as its largest term and the sum relative to it.
struct LogSum {
  float largest = -INFINITY, total = 0;
  __device__ void join(float other_largest, float other_total) {
    const float top = fmaxf(largest, other_largest), shift = top == -INFINITY ? 0.0f : top;
    total = total * expf(largest - shift) + other_total * expf(other_largest - shift);
    largest = top;
  }
};

template <int columns, bool exact>
__global__ void __launch_bounds__(block)
    prepare_kernel(Pairs in, const float* gain, float* log_sum, Workspace workspace) {
  extern __shared__ float4 memory[];
  __shared__ float largest[4][rows], totals[4][rows], logs[rows], gains[rows];
  float* shared = reinterpret_cast<float*>(memory);
  const Tile<columns> q{shared};
  const auto k = [&](int key) { return Tile<columns>{shared + (1 + key / rows % 2) * Tile<columns>::size}; };
  const Lane lane;
  const int tile = workspace.tiles - 1 - static_cast<int>(blockIdx.x) / in.batch, b = blockIdx.x % in.batch;
  const int first = tile * rows, count = min(rows, in.queries - first);
  const std::size_t row0 = static_cast<std::size_t>(b) * in.queries;
  load<rows>(q, in.q, row0 + first, 0, count);
  load<rows>(k(0), in.k, row0, 0, min(rows, in.keys));
  commit();
  LogSum sums[4];
  Accumulator<2> score;
  for (int key = 0; key <= first; key += rows) {
    wait<0>();
    __syncthreads();
    if (key < first) load<rows>(k(key + rows), in.k, row0 + key + rows, 0, min(rows, in.keys - key - rows));
    commit();
    dot_rows<exact, rows>(q, k(key), score);
    float top[4] = {-INFINITY, -INFINITY, -INFINITY, -INFINITY}, part[4] = {0, 0, 0, 0};
    score.each(lane, [&](int r, int column, float value) {
      value = key + column < in.seen(first + lane.row_of(r)) ? value * in.scale : -INFINITY;
      top[r] = fmaxf(top[r], value);
      return value;
    });
    score.each(lane, [&](int r, int, float value) {
      part[r] += top[r] == -INFINITY ? 0.0f : expf(value - top[r]);
      return value;
    });
#pragma unroll
    for (int r = 0; r < 4; ++r) sums[r].join(top[r], part[r]);
  }
#pragma unroll
  for (int r = 0; r < 4; ++r) {
#pragma unroll
    for (int offset = 1; offset < 4; offset *= 2)
      sums[r].join(__shfl_xor_sync(full_warp, sums[r].largest, offset),
                   __shfl_xor_sync(full_warp, sums[r].total, offset));
    if (lane.part == 0) {
      largest[lane.quarter][lane.row_of(r)] = sums[r].largest;
      totals[lane.quarter][lane.row_of(r)] = sums[r].total;
    }
  }
  __syncthreads();
  if (threadIdx.x < rows) {
    const int row = static_cast<int>(threadIdx.x);
    LogSum sum;
    for (int w = 0; w < 4; ++w) sum.join(largest[w][row], totals[w][row]);
    logs[row] = first + row > 0 ? sum.largest + logf(sum.total) : 0.0f;
    gains[row] = row < count ? gain[row0 + first + row] : 0.0f;
    if (row < count) log_sum[row0 + first + row] = logs[row];
  }
  __syncthreads();  // the tiles of q and k have been read
  const Weights<rows> alpha{shared}, inverse{shared + Weights<rows>::size};
  score.each(lane, [&](int r, int column, float value) {
    const int row = lane.row_of(r);
    return column < row && row < count ? expf(value - logs[row]) : 0.0f;
  });
  score.store(lane, alpha);
  __syncthreads();
  // Row by row: four threads share a column, a warp has whole columns.
  const int column = static_cast<int>(threadIdx.x) / 4, part = static_cast<int>(threadIdx.x) % 4;
  for (int row = 0; row < rows; ++row) {
    float sum = 0;
#pragma unroll 4
    for (int j = part; j < row; j += 4) sum += alpha.row(row)[j] * inverse.row(j)[column];
    sum += __shfl_xor_sync(full_warp, sum, 1);
    sum += __shfl_xor_sync(full_warp, sum, 2);
    if (part == 0) inverse.row(row)[column] = gains[row] * sum + (row == column ? 1.0f : 0.0f);
    __syncwarp();
  }
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < square; i += block) {
    workspace.alpha(b, tile)[i] = alpha.row(i / rows)[i % rows];
    workspace.inverse(b, tile)[i] = inverse.row(i / rows)[i % rows];
  }
}

struct Solve {
  Operand from;      ///< right-hand side: f, or ds
  Operand solution;  ///< s, or u; [B,T,F]
  float* to;         ///< the same, for writing
  float* routed;     ///< forward only
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

/// Forward: own tokens are queries, streamed tiles keys with their s, from the first to the one before. Transposed: own
/// tokens are keys, streamed tiles queries with their u, from the last to the one behind.
template <int columns, bool exact, bool transposed>
__global__ void __launch_bounds__(block) solve_kernel(Pairs in, Solve solve, Workspace workspace) {
  extern __shared__ float4 memory[];
  __shared__ float logs[rows], gains[rows];
  __shared__ unsigned ticket;
  __shared__ bool there;
  float* shared = reinterpret_cast<float*>(memory);
  const Tile<columns> own{shared}, streamed{shared + own_size<columns>}, solved{streamed.data + Tile<columns>::size};
  const Weights<rows> weights{solved.data + Tile<columns>::size};
  const Weights<rows> inverse{shared};  // replaces `own` once all scores are known
  const Lane lane;
  const int thread = static_cast<int>(threadIdx.x);
  // Tiles are taken in the order in which they can be solved: those that a block waits for belong to running blocks.
  if (thread == 0) ticket = atomicAdd(workspace.flags, 1u);
  __syncthreads();
  const int b = static_cast<int>(ticket) % in.batch, turn = static_cast<int>(ticket) / in.batch;
  const int tile = transposed ? workspace.tiles - 1 - turn : turn;
  const int first = tile * rows, count = min(rows, in.queries - first), length = in.queries;
  const std::size_t row0 = static_cast<std::size_t>(b) * length;
  const int width = solve.from.width;
  const auto tile_at = [&](int step) { return transposed ? workspace.tiles - 1 - step : step; };
  const auto rows_at = [&](int step) { return min(rows, length - tile_at(step) * rows); };
  const auto load_statistics = [&](int from) {
    if (thread >= rows) return;
    const bool valid = from + thread < length;
    logs[thread] = valid ? solve.log_sum[row0 + from + thread] : 0.0f;
    gains[thread] = valid ? solve.gain[row0 + from + thread] : 0.0f;
  };
  const auto load_inverse = [&] {
    const float* source = workspace.inverse(b, tile);
    for (int i = thread; i < square; i += block) {
      const int row = i / rows, column = i % rows;
      (transposed ? inverse.row(column)[row] : inverse.row(row)[column]) = source[i];
    }
  };
  const auto load_streamed = [&](int step) {
    load<rows>(streamed, transposed ? in.q : in.k, row0 + tile_at(step) * rows, 0, rows_at(step));
  };
  const auto load_solved = [&](int step) {
    load<rows>(solved, solve.solution, row0 + tile_at(step) * rows, 0, rows_at(step));
    commit();
  };

  const int steps = turn;
  if (!transposed) load_statistics(first);
  if (steps > 0) {
    load<rows>(own, transposed ? in.k : in.q, row0 + first, 0, count);
    load_streamed(0);
  } else {
    load_inverse();
  }
  commit();
  Accumulator<columns / 32> sum;
  sum.clear();
  for (int step = 0; step < steps; ++step) {
    const int from = tile_at(step) * rows;
    if (transposed) load_statistics(from);
    wait<0>();
    if (thread == 0) there = is_set(workspace.done(b, tile_at(step)));
    __syncthreads();
    const bool early = there;
    if (early) load_solved(step);
    Accumulator<2> score;
    dot_rows<exact, rows>(own, streamed, score);
    __syncthreads();
    if (step + 1 < steps) {
      load_streamed(step + 1);
    } else {
      load_inverse();
    }
    commit();
    score.each(lane, [&](int r, int column, float value) {
      const int query = transposed ? column : lane.row_of(r);
      const float weight = expf(value * in.scale - logs[query]);
      return transposed ? (from + column < length ? weight * gains[query] : 0.0f) : weight;
    });
    score.store(lane, weights);
    if (early) {
      wait<1>();
    } else {
      if (thread == 0) {
        while (!is_set(workspace.done(b, tile_at(step)))) __nanosleep(20);
      }
      __syncthreads();
      load_solved(step);
      wait<0>();
    }
    __syncthreads();
    add_rows<exact, rows>(weights, solved, sum);
    __syncthreads();
  }
  __syncthreads();  // also the inverse, when there was no step

  // The right-hand side takes the place of the streamed tile.
  Accumulator<columns / 32> known = sum;
  known.each(lane, [&](int r, int column, float value) {
    const int row = lane.row_of(r);
    const float given = row < count && column < width ? solve.from.at(row0 + first + row, 0)[column] : 0.0f;
    return given + (transposed ? value : gains[row] * value);
  });
  known.store(lane, streamed);
  __syncthreads();
  Accumulator<columns / 32> answer;
  answer.clear();
  add_rows<true, rows>(inverse, streamed, answer);
  answer.each(lane, [&](int r, int column, float value) {
    const int row = lane.row_of(r);
    if (row < count && column < width) solve.to[(row0 + first + row) * width + column] = value;
    return value;
  });
  __threadfence();
  __syncthreads();
  if (thread == 0) set(workspace.done(b, tile));
  if (transposed) return;

  // What the tokens of the tile itself have sent.
  answer.store(lane, solved);
  for (int i = thread; i < square; i += block) weights.row(i / rows)[i % rows] = workspace.alpha(b, tile)[i];
  __syncthreads();
  add_rows<true, rows>(weights, solved, sum);
  sum.each(lane, [&](int r, int column, float value) {
    const int row = lane.row_of(r);
    if (row < count && column < width) solve.routed[(row0 + first + row) * width + column] = value;
    return value;
  });
}

template <int columns, bool exact>
void launch_prepare(cudaStream_t stream, const Pairs& in, const float* gain, float* log_sum,
                    const Workspace& workspace) {
  constexpr int bytes = prepare_bytes<columns>;
  const auto kernel = prepare_kernel<columns, exact>;
  allow_shared_memory(reinterpret_cast<const void*>(kernel), bytes, "feedback_solve");
  kernel<<<static_cast<unsigned>(in.batch * workspace.tiles), block, bytes, stream>>>(in, gain, log_sum, workspace);
}

template <int columns, bool exact, bool transposed>
void launch_solve(cudaStream_t stream, const Pairs& in, const Solve& solve, const Workspace& workspace) {
  constexpr int bytes = solve_bytes<columns>;
  const auto kernel = solve_kernel<columns, exact, transposed>;
  allow_shared_memory(reinterpret_cast<const void*>(kernel), bytes, "feedback_solve");
  check_cuda(cudaMemsetAsync(workspace.flags, 0, workspace.flag_count(in.batch) * sizeof(unsigned), stream),
             "clearing the flags of feedback_solve");
  kernel<<<static_cast<unsigned>(in.batch * workspace.tiles), block, bytes, stream>>>(in, solve, workspace);
}

/// Calls launch(width, exact) with constants.
template <class Launch>
void with_width(std::int64_t width, bool exact, const Launch& launch) {
  const auto with_exact = [&](auto columns) {
    if (exact) {
      launch(columns, std::true_type{});
    } else {
      launch(columns, std::false_type{});
    }
  };
  if (width <= 64) {
    with_exact(std::integral_constant<int, 64>{});
  } else if (width <= 128) {
    with_exact(std::integral_constant<int, 128>{});
  } else if (width <= 256) {
    with_exact(std::integral_constant<int, 256>{});
  } else {
    throw Error(ExitCode::failure, "the GPU's feedback solve takes models up to 256 wide, and this one has " +
                                       std::to_string(width) + "; take a narrower one or --device cpu");
  }
}

std::int64_t widest(const FeedbackInputs& in) { return std::max(in.q.shape[2], in.f.shape[2]); }

Operand rows_operand(const Tensor& tensor) {
  return operand_of(tensor, tensor.row_stride, static_cast<int>(tensor.columns()));
}

Pairs feedback_pairs(const FeedbackInputs& in) {
  Pairs pairs{};
  pairs.q = rows_operand(in.q);
  pairs.k = rows_operand(in.k);
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

}  // namespace

std::int64_t CudaBackend::feedback_solve_workspace(const FeedbackInputs& in) const {
  const std::int64_t tiles = in.f.shape[0] * tiles_of(in);
  return tiles * 2 * square + 1 + tiles;
}

void CudaBackend::feedback_solve(const FeedbackInputs& in, const Tensor& s, const FeedbackSaved& saved) {
  if (in.f.elements() == 0) return;
  const Pairs pairs = feedback_pairs(in);
  const Workspace workspace = workspace_of(in, saved);
  const Solve solve{rows_operand(in.f),       rows_operand(s),      s.as<float>(),
                    saved.routed.as<float>(), in.gamma.as<float>(), saved.log_sum.as<float>()};
  with_width(widest(in), precision_ == Precision::fp32, [&](auto columns, auto exact) {
    launch_prepare<columns(), exact()>(stream(), pairs, in.gamma.as<float>(), saved.log_sum.as<float>(), workspace);
    launch_solve<columns(), exact(), false>(stream(), pairs, solve, workspace);
  });
  launched("feedback_solve");
}

void CudaBackend::feedback_solve_backward(const FeedbackInputs& in, const Tensor& s, const FeedbackSaved& saved,
                                          const Tensor& ds, const Tensor& u, const FeedbackGrads& out) {
  if (in.f.elements() == 0) return;
  Pairs pairs = feedback_pairs(in);
  const Solve solve{rows_operand(ds), rows_operand(u),      u.as<float>(),
                    nullptr,          in.gamma.as<float>(), saved.log_sum.as<float>()};
  const unsigned count = static_cast<unsigned>(pairs.batch) * pairs.queries;
  float* means = scratch(count);
  pairs.v = rows_operand(s);
  pairs.dy = rows_operand(u);
  pairs.log_sum = saved.log_sum.as<float>();
  pairs.gain = in.gamma.as<float>();
  pairs.mean = means;
  with_width(widest(in), precision_ == Precision::fp32, [&](auto columns, auto exact) {
    constexpr const char* what = "feedback_solve_backward";
    launch_solve<columns(), exact(), true>(stream(), pairs, solve, workspace_of(in, saved));
    mean_kernel<<<blocks_for(count, threads / 32), threads, 0, stream()>>>(pairs.dy, rows_operand(saved.routed),
                                                                           pairs.queries, 1, count, means);
    if (out.q.wanted())
      launch_gradients<columns(), exact(), false, false>(stream(), pairs, rows_target(out.q, in.q), {}, what);
    if (out.k.wanted())
      launch_gradients<columns(), exact(), true, false>(stream(), pairs, rows_target(out.k, in.k), {}, what);
  });
  launched("feedback_solve_backward");
  accumulate(Tensor(means, in.gamma.shape, DType::f32), out.gamma);  // u . routed is the gradient of gamma
  accumulate(u, out.f);
}

}  // namespace afterglow
