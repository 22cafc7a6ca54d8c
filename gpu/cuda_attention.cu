// Softmax attention: 64 queries a block, 64 keys at a time past them; scores never leave the block. The gradient
// computes them again. Products run on the tensor cores, see cuda_tiles.cuh.
#include "gpu/cuda_backend.h"
#include "gpu/cuda_pairs.cuh"

namespace afterglow {

using namespace device;
using namespace device::tiles;

namespace {

constexpr int quarters = 4;  // warps that share a row

template <int columns>
constexpr int forward_bytes = (3 * Tile<columns>::size + Weights<rows>::size) * 4;

/// The largest, or the sum, of a row's numbers in the four lanes that share it.
__device__ float quad_max(float x) {
  x = fmaxf(x, __shfl_xor_sync(full_warp, x, 1));
  return fmaxf(x, __shfl_xor_sync(full_warp, x, 2));
}
__device__ float quad_sum(float x) {
  x += __shfl_xor_sync(full_warp, x, 1);
  return x + __shfl_xor_sync(full_warp, x, 2);
}

template <int columns, bool exact>
__global__ void __launch_bounds__(block, columns <= 64 ? 2 : 1)
    attention_kernel(Pairs in, Target to, float* log_sum, unsigned own_tiles) {
  extern __shared__ float4 memory[];
  __shared__ float shared_rows[quarters][rows];
  float* shared = reinterpret_cast<float*>(memory);
  const Tile<columns> q{shared}, k{shared + Tile<columns>::size}, v{shared + 2 * Tile<columns>::size};
  const Weights<rows> weights{shared + 3 * Tile<columns>::size};
  const Lane lane;
  const int sequence = static_cast<int>(blockIdx.x / own_tiles), b = sequence / in.heads, h = sequence % in.heads;
  const int key_head = h / (in.heads / in.key_heads);
  // Late queries see the most keys: they start first.
  const int first = static_cast<int>(own_tiles - 1 - blockIdx.x % own_tiles) * rows;
  const int count = min(rows, in.queries - first), limit = in.seen(first + count - 1);
  const std::size_t own_row = static_cast<std::size_t>(b) * in.queries + first;
  const auto begin_load = [&](const Tile<columns>& tile, const Operand& from, int key) {
    if (key < limit)
      load<rows>(tile, from, static_cast<std::size_t>(b) * in.keys + key, key_head, min(rows, in.keys - key));
    commit();
  };
  load<rows>(q, in.q, own_row, h, count);
  begin_load(k, in.k, 0);
  begin_load(v, in.v, 0);
  Accumulator<columns / 32> sum;
  sum.clear();
  float largest[4], total[4];
#pragma unroll
  for (int r = 0; r < 4; ++r) {
    largest[r] = -INFINITY;
    total[r] = 0;
  }
  for (int key = 0; key < limit; key += rows) {
    wait<1>();
    __syncthreads();
    Accumulator<2> score;
    dot_rows<exact, rows>(q, k, score);
    float top[4] = {-INFINITY, -INFINITY, -INFINITY, -INFINITY};
    score.each(lane, [&](int r, int column, float value) {
      value = key + column < in.seen(first + lane.row_of(r)) ? value * in.scale : -INFINITY;
      top[r] = fmaxf(top[r], value);
      return value;
    });
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      top[r] = quad_max(top[r]);
      if (lane.part == 0) shared_rows[lane.quarter][lane.row_of(r)] = top[r];
    }
    __syncthreads();
    begin_load(k, in.k, key + rows);
    float shrink[4];
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      const float before = largest[r];
#pragma unroll
      for (int w = 0; w < quarters; ++w) largest[r] = fmaxf(largest[r], shared_rows[w][lane.row_of(r)]);
      shrink[r] = largest[r] == -INFINITY ? 1.0f : expf(before - largest[r]);
      total[r] *= shrink[r];
    }
    score.each(lane, [&](int r, int, float value) {
      const float weight = largest[r] == -INFINITY ? 0.0f : expf(value - largest[r]);
      total[r] += weight;
      return weight;
    });
    sum.each(lane, [&](int r, int, float value) { return value * shrink[r]; });
    score.store(lane, weights);
    wait<1>();
    __syncthreads();
    add_rows<exact, rows>(weights, v, sum);
    __syncthreads();
    begin_load(v, in.v, key + rows);
  }
  wait<0>();
#pragma unroll
  for (int r = 0; r < 4; ++r) {
    total[r] = quad_sum(total[r]);
    if (lane.part == 0) shared_rows[lane.quarter][lane.row_of(r)] = total[r];
  }
  __syncthreads();
#pragma unroll
  for (int r = 0; r < 4; ++r) {
    const int row = lane.row_of(r);
    total[r] = 0;
#pragma unroll
    for (int w = 0; w < quarters; ++w) total[r] += shared_rows[w][row];
    if (row < count && lane.quarter == 0 && lane.part == 0)
      log_sum[in.statistic(b, h, first + row)] = largest[r] + logf(total[r]);
  }
  sum.each(lane, [&](int r, int, float value) { return total[r] > 0 ? value / total[r] : 0.0f; });
  to.put(lane, sum, own_row, h, count);
}

/// Heads [B,T,H,D] as rows of all heads.
Tensor joined(const Tensor& heads) {
  return heads.reshaped({heads.shape[0], heads.shape[1], heads.shape[2] * heads.shape[3]});
}
Operand heads_operand(const Tensor& heads) {
  return operand_of(heads, heads.shape[2] * heads.shape[3], static_cast<int>(heads.shape[3]));
}
Target target_of(const Grad& grad, int width) {
  return {grad.wanted() ? sink_of({joined(grad.tensor), grad.accumulate}) : Sink{}, width};
}

Pairs attention_pairs(const Tensor& q, const Tensor& k, const Tensor& v, double scale, bool causal) {
  Pairs in{};
  in.q = heads_operand(q);
  in.k = heads_operand(k);
  in.v = heads_operand(v);
  in.batch = static_cast<int>(q.shape[0]);
  in.queries = static_cast<int>(q.shape[1]);
  in.keys = static_cast<int>(k.shape[1]);
  in.heads = static_cast<int>(q.shape[2]);
  in.key_heads = static_cast<int>(k.shape[2]);
  in.offset = causal ? in.keys - in.queries + 1 : in.keys;
  in.scale = static_cast<float>(scale);
  return in;
}

template <int columns, bool exact>
void launch_forward(cudaStream_t stream, const Pairs& in, const Target& to, float* log_sum) {
  constexpr int bytes = forward_bytes<columns>;
  const auto kernel = attention_kernel<columns, exact>;
  allow_shared_memory(reinterpret_cast<const void*>(kernel), bytes, "attention");
  const unsigned tiles = blocks_for(in.queries, rows);
  kernel<<<tiles* static_cast<unsigned>(in.batch * in.heads), block, bytes, stream>>>(in, to, log_sum, tiles);
}

struct AttentionTargets {
  Target q, k, v;
};

template <int columns, bool exact>
void launch_backward(cudaStream_t stream, const Pairs& in, const AttentionTargets& out) {
  constexpr const char* what = "attention_backward";
  if (out.q.wanted()) launch_gradients<columns, exact, false, false>(stream, in, out.q, {}, what);
  if constexpr (columns <= 128) {
    if (out.k.wanted() || out.v.wanted()) launch_gradients<columns, exact, true, true>(stream, in, out.k, out.v, what);
  } else {
    if (out.k.wanted()) launch_gradients<columns, exact, true, false>(stream, in, out.k, {}, what);
    if (!out.v.wanted()) return;
    constexpr int bytes = gradient_bytes<columns, false>;
    const auto kernel = value_gradient_kernel<columns, exact>;
    allow_shared_memory(reinterpret_cast<const void*>(kernel), bytes, what);
    const unsigned tiles = blocks_for(in.keys, rows);
    kernel<<<tiles* static_cast<unsigned>(in.batch * in.key_heads), block, bytes, stream>>>(in, out.v, tiles);
  }
}

/// Calls launch(width, exact) with constants: the head width rounded up to what the kernels are made for.
template <class Launch>
void with_width(int width, bool exact, const Launch& launch) {
  const auto with_exact = [&](auto columns) {
    if (exact) {
      launch(columns, std::true_type{});
    } else {
      launch(columns, std::false_type{});
    }
  };
  if (width <= 32) {
    with_exact(std::integral_constant<int, 32>{});
  } else if (width <= 64) {
    with_exact(std::integral_constant<int, 64>{});
  } else if (width <= 128) {
    with_exact(std::integral_constant<int, 128>{});
  } else if (width <= 256) {
    with_exact(std::integral_constant<int, 256>{});
  } else {
    throw Error(ExitCode::failure, "the GPU's attention takes heads up to 256 wide, and these have " +
                                       std::to_string(width) + "; use more heads or --device cpu");
  }
}

}  // namespace

void CudaBackend::attention(const Tensor& q, const Tensor& k, const Tensor& v, double scale, bool causal,
                            const Tensor& y, const Tensor& log_sum) {
  if (q.elements() == 0) return;
  const Pairs in = attention_pairs(q, k, v, scale, causal);
  const Target to = target_of({y, false}, in.q.width);
  with_width(in.q.width, precision_ == Precision::fp32, [&](auto columns, auto exact) {
    launch_forward<columns(), exact()>(stream(), in, to, log_sum.as<float>());
  });
  launched("attention");
}

void CudaBackend::attention_backward(const Tensor& q, const Tensor& k, const Tensor& v, double scale, bool causal,
                                     const Tensor& y, const Tensor& log_sum, const Tensor& dy, const Grad& dq,
                                     const Grad& dk, const Grad& dv) {
  if (q.elements() == 0) return;
  Pairs in = attention_pairs(q, k, v, scale, causal);
  const unsigned count = static_cast<unsigned>(in.batch) * in.heads * in.queries;
  float* means = scratch(count);
  in.dy = heads_operand(dy);
  in.log_sum = log_sum.as<float>();
  in.mean = means;
  mean_kernel<<<blocks_for(count, threads / 32), threads, 0, stream()>>>(in.dy, heads_operand(y), in.queries, in.heads,
                                                                         count, means);
  const AttentionTargets out{target_of(dq, in.q.width), target_of(dk, in.q.width), target_of(dv, in.q.width)};
  with_width(in.q.width, precision_ == Precision::fp32,
             [&](auto columns, auto exact) { launch_backward<columns(), exact()>(stream(), in, out); });
  launched("attention_backward");
}

}  // namespace afterglow
