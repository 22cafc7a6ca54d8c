// Gated KalmaNet's core on tensor cores, around the solves: every chunk's addition to the states, the sums of those
// over the chunks in both directions (inter-chunk state passing), and the gradients of keys, values and gates.
#include "gpu/chebyshev/chebyshev_dual.cuh"
#include "gpu/chebyshev/chebyshev_mma.cuh"
#include "gpu/cuda_backend.h"

namespace afterglow {

using namespace device;

namespace {

using matrix_units::add_state;
using matrix_units::add_tokens;
using matrix_units::each_inside;
using matrix_units::fill_weights;
using matrix_units::Left;
using matrix_units::load_mixed;
using matrix_units::load_panel;
using matrix_units::load_rows;
using matrix_units::load_state;
using matrix_units::Number;
using matrix_units::operator*;
using matrix_units::row_sum;
using matrix_units::state_of;
using matrix_units::token_of;
using matrix_units::weigh_future;

/// sum += left^T right over the 64 tokens of two panels: the warp's 16 rows of a [W,W] matrix.
template <int W>
__device__ __forceinline__ void add_outer(const Number* left, const Number* right, matrix_units::Rows<W>& sum) {
  const int row0 = static_cast<int>(threadIdx.x) / 32 * 16;
#pragma unroll
  for (int k = 0; k < chunk_tokens / 16; ++k) {
    std::uint32_t rows[4];
    matrix_units::load_left_transposed(rows, left, W + 8, row0, 16 * k);
#pragma unroll
    for (int n = 0; n < W / 16; ++n) {
      std::uint32_t numbers[4];
      matrix_units::load_right<true>(numbers, right, W + 8, 16 * k, 16 * n);
      tiles::mma_bf16(sum.cell[2 * n], rows, numbers[0], numbers[1]);
      tiles::mma_bf16(sum.cell[2 * n + 1], rows, numbers[2], numbers[3]);
    }
  }
}

template <int W>
__device__ __forceinline__ void store_state(const matrix_units::Rows<W>& sum, float* states, std::size_t piece) {
  const int lane = static_cast<int>(threadIdx.x) % 32, row = static_cast<int>(threadIdx.x) / 32 * 16 + lane / 4;
  Number* to = reinterpret_cast<Number*>(states) + piece * W * W + row * W + lane % 4 * 2;
#pragma unroll
  for (int n = 0; n < W / 8; ++n) {
#pragma unroll
    for (int half = 0; half < 2; ++half)
      *reinterpret_cast<std::uint32_t*>(to + 8 * half * W + 8 * n) =
          matrix_units::packed(sum.cell[n][2 * half], sum.cell[n][2 * half + 1]);
  }
}

/// sum_c e^{G - G_c} k_c r_c^T of every chunk, with r the keys (blockIdx.y 0) or the values (1), and e^G.
template <int W>
__global__ void __launch_bounds__(2 * W) added_kernel(ChebyshevShape s, ChebyshevPointers io, float* faded) {
  extern __shared__ float4 aligned[];
  __shared__ Gates gates;
  auto* left = reinterpret_cast<Number*>(aligned);
  Number* right = left + chunk_tokens * (W + 8);
  const ChunkPosition at(s, static_cast<int>(blockIdx.x));
  const bool keys = blockIdx.y == 0;
  load_gates(s, io.g, at, gates);
  const float *gate = keys ? gates.key : gates.value, last = gate[chunk_tokens - 1];
  load_panel<W>(s, at, io.k, left, [&](const float4& k, int c, std::size_t, int) { return expf(last - gate[c]) * k; });
  load_panel<W>(s, at, keys ? io.k : io.v, right);
  if (threadIdx.x == 0) faded[blockIdx.y * s.pieces() + blockIdx.x] = expf(last);
  __syncthreads();
  matrix_units::Rows<W> sum;
  sum.clear();
  add_outer(left, right, sum);
  store_state(sum, keys ? io.H : io.S, blockIdx.x);
}

/// Gradients of the state before every chunk from the chunk's own tokens: of H (doubled) and S.
template <int W>
__global__ void __launch_bounds__(2 * W)
    state_gradient_kernel(ChebyshevShape s, ChebyshevPointers io, const float* dy, Dual dual, float* faded) {
  extern __shared__ float4 aligned[];
  __shared__ Gates gates;
  auto* left = reinterpret_cast<Number*>(aligned);
  Number *right = left + chunk_tokens * (W + 8), *keys = right + chunk_tokens * (W + 8);
  Number* weighted = keys + chunk_tokens * (W + 8);
  const ChunkPosition at(s, static_cast<int>(blockIdx.x));
  load_gates(s, io.g, at, gates);
  const bool of_keys = blockIdx.y == 0;
  const float* gate = of_keys ? gates.key : gates.value;
  if (threadIdx.x == 0) faded[blockIdx.y * s.pieces() + blockIdx.x] = expf(gate[chunk_tokens - 1]);
  matrix_units::Rows<W> sum;
  sum.clear();
  if (!of_keys) {
    load_mixed<W>(s, io, at, left, [&](int c) { return s.scale * expf(gate[c]); });
    load_panel<W>(s, at, dy, right);
    __syncthreads();
    add_outer(left, right, sum);
    return store_state(sum, dual.dS, blockIdx.x);
  }
  load_panel<W>(s, at, io.x, left);
  load_panel<W>(s, at, dual.z, right, [&](const float4& z, int c, std::size_t, int) { return -expf(gate[c]) * z; });
  load_panel<W>(s, at, io.k, keys);
  load_panel<W>(s, at, io.k, weighted,
                [&](const float4& k, int c, std::size_t row, int) { return -expf(gate[c]) * dual.later[row] * k; });
  __syncthreads();
  add_outer(left, right, sum);
  add_outer(right, left, sum);
  add_outer(keys, weighted, sum);
  const float weight = dual.later[s.row(at.pair, at.first)] * expf(2.0f * gate[0]);
  const Number* before = state_of<W>(io.H, blockIdx.x) + threadIdx.x / 32 * 16 * W;
  sum.each([&](float& cell, int half, int column) {
    cell -= weight * __bfloat162float(before[(threadIdx.x % 32 / 4 + 8 * half) * W + column]);
  });
  store_state(sum, dual.dH, blockIdx.x);
}

/// Turns every chunk's addition into the sum before that chunk (after it when `backwards`), in place; a thread has 8
/// numbers of one state. blockIdx.z selects the array.
template <bool backwards>
__global__ void __launch_bounds__(threads, 4)
    sum_kernel(int chunks, std::size_t size, uint4* first, uint4* second, const float* faded) {
  constexpr int batch = 4;
  const std::size_t place = blockIdx.x * std::size_t{threads} + threadIdx.x, pair = blockIdx.y;
  if (place >= size) return;
  uint4* states = (blockIdx.z == 0 ? first : second) + pair * chunks * size + place;
  faded += (blockIdx.z * gridDim.y + pair) * chunks;
  const auto chunk = [&](int i) { return backwards ? chunks - 1 - i : i; };
  uint4 next[batch];
  const auto load = [&](int begin) {
#pragma unroll
    for (int i = 0; i < batch; ++i)
      if (begin + i < chunks) next[i] = states[chunk(begin + i) * size];
  };
  float sum[8] = {};
  load(0);
  for (int begin = 0; begin < chunks; begin += batch) {
    uint4 added[batch];
#pragma unroll
    for (int i = 0; i < batch; ++i) added[i] = next[i];
    load(begin + batch);  // before the stores below, which would delay the loads
#pragma unroll
    for (int i = 0; i < batch; ++i) {
      if (begin + i >= chunks) break;
      states[chunk(begin + i) * size] = {matrix_units::packed(sum[0], sum[1]), matrix_units::packed(sum[2], sum[3]),
                                         matrix_units::packed(sum[4], sum[5]), matrix_units::packed(sum[6], sum[7])};
      const float keep = __ldg(faded + chunk(begin + i));
      const std::uint32_t pairs[4] = {added[i].x, added[i].y, added[i].z, added[i].w};
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        sum[2 * j] = keep * sum[2 * j] + matrix_units::low_of(pairs[j]);
        sum[2 * j + 1] = keep * sum[2 * j + 1] + matrix_units::high_of(pairs[j]);
      }
    }
  }
}

/// This thread's part of the inner product of two states.
template <int W>
__device__ float overlap_of(const float* a, const float* b, std::size_t piece_a, std::size_t piece_b) {
  const auto* first = reinterpret_cast<const std::uint32_t*>(state_of<W>(a, piece_a));
  const auto* second = reinterpret_cast<const std::uint32_t*>(state_of<W>(b, piece_b));
  float sum = 0;
#pragma unroll 8
  for (int i = threadIdx.x; i < W * W / 2; i += matrix_units::threads) {
    sum += matrix_units::low_of(first[i]) * matrix_units::low_of(second[i]) +
           matrix_units::high_of(first[i]) * matrix_units::high_of(second[i]);
  }
  return sum;
}

/// Subtracts the inner products of the gradient's rows and `own`, times `factor`, from the tokens' sums.
template <int W>
__device__ __forceinline__ void take_overlap(const ChebyshevShape& s, const ChunkPosition& at, const float* own,
                                             float factor, matrix_units::Rows<W>& gradient, float* shares) {
  float overlap[2] = {};
  each_inside(s, at, gradient, [&](float cell, std::size_t row, int column, int half) {
    overlap[half] += cell * own[row * W + column];
  });
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float sum = row_sum(overlap[half]);
    if (threadIdx.x % 4 == 0) shares[token_of(half)] -= factor * sum;
  }
}
template <int W>
__device__ __forceinline__ void put_rows(const ChebyshevShape& s, const ChunkPosition& at, const Sink& out,
                                         matrix_units::Rows<W>& gradient) {
  if (!out.wanted()) return;
  each_inside(s, at, gradient, [&](float cell, std::size_t row, int column, int) { out.put(row, column, cell); });
}

template <int W>
__global__ void __launch_bounds__(matrix_units::threads, 2)
    finish_kernel(ChebyshevShape s, ChebyshevPointers io, const float* dy, Dual dual, Sinks out) {
  extern __shared__ float4 aligned[];
  __shared__ Gates gates;
  __shared__ float later[chunk_tokens], shares[chunk_tokens], sums[32];
  auto* state = reinterpret_cast<Number*>(aligned);
  Number *keys = state + W * (W + 8), *left = keys + chunk_tokens * (W + 8), *right = left + chunk_tokens * (W + 8);
  auto* weights = reinterpret_cast<uint4*>(right + chunk_tokens * (W + 8));
  const ChunkPosition at(s, static_cast<int>(blockIdx.x));
  const int group = matrix_units::token_group(), last_group = chunk_tokens / matrix_units::warp_tokens - 1;
  load_gates(s, io.g, at, gates);
  if (threadIdx.x < chunk_tokens) {
    const int c = static_cast<int>(threadIdx.x);
    const std::size_t row = s.row(at.pair, at.first + c);
    later[c] = c < at.count ? dual.later[row] : 0.0f;
    shares[c] = c < at.count ? dual.value_share[row] + (s.decay_keys ? dual.key_share[row] : 0.0f) : 0.0f;
  }
  load_state<W>(state_of<W>(dual.dH, blockIdx.x), state);
  load_panel<W>(s, at, io.k, keys);
  load_panel<W>(s, at, io.x, left);
  load_panel<W>(s, at, dual.z, right);
  __syncthreads();
  matrix_units::Rows<W> gradient;
  Left<W> own_keys;
  load_rows(s, at, io.k, 1.0f, gradient);
  own_keys.round(gradient);
  gradient.clear();
  float decay_to_end[2], before[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int c = token_of(half);
    decay_to_end[half] = expf(gates.key[chunk_tokens - 1] - gates.key[c]);
    before[half] = -expf(gates.key[c]) * later[c];
  }
  add_state<W, false>(own_keys, state, decay_to_end, gradient);
  weigh_future(weights, gates.key, -1.0f);
  add_tokens(own_keys, left, right, weights, group, last_group, gradient);
  add_tokens(own_keys, right, left, weights, group, last_group, gradient);
  fill_weights(weights,
               [&](int c, int j) { return -later[max(c, j)] * expf(gates.key[max(c, j)] - gates.key[min(c, j)]); });
  add_tokens(own_keys, keys, keys, weights, 0, last_group, gradient);
  __syncthreads();
  load_state<W>(state_of<W>(io.H, blockIdx.x), state);
  load_mixed<W>(s, io, at, left, [](int) { return 1.0f; });
  load_panel<W>(s, at, dy, right);
  __syncthreads();
  add_state<W, false>(own_keys, state, before, gradient);
  if (s.decay_keys) take_overlap(s, at, io.k, 0.5f, gradient, shares);
  __syncthreads();
  load_state<W>(state_of<W>(dual.dS, blockIdx.x), state);
  __syncthreads();
#pragma unroll
  for (int half = 0; half < 2; ++half)
    decay_to_end[half] = expf(gates.value[chunk_tokens - 1] - gates.value[token_of(half)]);
  weigh_future(weights, gates.value, s.scale);
  {
    matrix_units::Rows<W> rows;
    Left<W> own_values;
    load_rows(s, at, io.v, 1.0f, rows);
    own_values.round(rows);
    add_state<W, false>(own_values, state, decay_to_end, gradient);
    add_tokens(own_values, right, left, weights, group, last_group, gradient);
  }
  put_rows(s, at, out.k, gradient);
  gradient.clear();
  add_state<W, true>(own_keys, state, decay_to_end, gradient);
  add_tokens(own_keys, left, right, weights, group, last_group, gradient);
  put_rows(s, at, out.v, gradient);
  take_overlap(s, at, io.v, 1.0f, gradient, shares);
  if (!out.g.wanted()) return;
  float carry = 0;
  if (at.index + 1 < s.chunks) {
    carry = overlap_of<W>(dual.dS, io.S, blockIdx.x, blockIdx.x + 1);
    if (s.decay_keys) carry += 0.5f * overlap_of<W>(dual.dH, io.H, blockIdx.x, blockIdx.x + 1);
  }
  carry = block_sum(carry, sums);
  const int c = static_cast<int>(threadIdx.x);
  if (c >= at.count) return;
  for (int i = at.count - 1; i >= c; --i) carry += shares[i];
  const std::size_t row = s.row(at.pair, at.first + c);
  out.g.put(static_cast<unsigned>(row), at.first + c > 0 && io.g[row] >= s.log_floor ? carry : 0.0f);
}

constexpr int panels_bytes(int width, int panels) {
  return panels * chunk_tokens * (width + 8) * static_cast<int>(sizeof(Number));
}

void launch_added(cudaStream_t stream, const ChebyshevShape& s, const ChebyshevPointers& io, float* faded) {
  matrix_units::with_width(s.width, [&](auto width) {
    constexpr int W = width.value, bytes = panels_bytes(W, 2);
    allow_shared_memory(reinterpret_cast<const void*>(added_kernel<W>), bytes, "Gated KalmaNet");
    added_kernel<W><<<dim3(static_cast<unsigned>(s.pieces()), 2), 2 * W, bytes, stream>>>(s, io, faded);
  });
}

template <bool backwards>
void sum_states(cudaStream_t stream, const ChebyshevShape& s, float* first, float* second, const float* faded) {
  const std::size_t size = s.square() / 8;
  const dim3 grid(blocks_for(static_cast<std::int64_t>(size), threads), static_cast<unsigned>(s.batch * s.heads), 2);
  sum_kernel<backwards><<<grid, threads, 0, stream>>>(s.chunks, size, reinterpret_cast<uint4*>(first),
                                                      reinterpret_cast<uint4*>(second), faded);
}

}  // namespace

template <class T>
void device::states_on_matrix_units(cudaStream_t stream, const ChebyshevShape& s, const ChebyshevPointersOf<T>& io,
                                    float* faded) {
  if (on_warpgroups(s)) {
    added_on_warpgroups(stream, s, io, faded);
  } else if constexpr (std::is_same_v<T, float>) {
    launch_added(stream, s, io, faded);
  }
  sum_states<false>(stream, s, io.H, io.S, faded);
}
template void device::states_on_matrix_units(cudaStream_t, const ChebyshevShape&, const ChebyshevPointers&, float*);
template void device::states_on_matrix_units(cudaStream_t, const ChebyshevShape&, const ChebyshevPointersOf<Bf16>&,
                                             float*);

void device::state_gradients_on_matrix_units(cudaStream_t stream, const ChebyshevShape& s, const ChebyshevPointers& io,
                                             const float* dy, const Dual& dual, float* faded) {
  matrix_units::with_width(s.width, [&](auto width) {
    constexpr int W = width.value, bytes = panels_bytes(W, 4);
    allow_shared_memory(reinterpret_cast<const void*>(state_gradient_kernel<W>), bytes, "Gated KalmaNet");
    state_gradient_kernel<W>
        <<<dim3(static_cast<unsigned>(s.pieces()), 2), 2 * W, bytes, stream>>>(s, io, dy, dual, faded);
  });
}

void device::sum_state_gradients_on_matrix_units(cudaStream_t stream, const ChebyshevShape& s, const Dual& dual,
                                                 const float* faded) {
  sum_states<true>(stream, s, dual.dH, dual.dS, faded);
}

void device::finish_on_matrix_units(cudaStream_t stream, const ChebyshevShape& s, const ChebyshevPointers& io,
                                    const float* dy, const Dual& dual, const Sinks& out) {
  matrix_units::with_width(s.width, [&](auto width) {
    constexpr int W = width.value, bytes = matrix_units::bytes<W>(3) + matrix_units::weight_bytes;
    allow_shared_memory(reinterpret_cast<const void*>(finish_kernel<W>), bytes, "Gated KalmaNet");
    finish_kernel<W><<<static_cast<unsigned>(s.pieces()), matrix_units::threads, bytes, stream>>>(s, io, dy, dual, out);
  });
}

}  // namespace afterglow
