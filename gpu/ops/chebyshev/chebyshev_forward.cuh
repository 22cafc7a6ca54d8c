// Gated KalmaNet's core in bfloat16, forward pass: every chunk's addition to the states, then norms, Chebyshev
// iteration and readout of every chunk. The equations are in chebyshev.cu. Grid: one block a chunk.
#pragma once
#include "gpu/ops/chebyshev/chebyshev_units.cuh"

namespace afterglow::device {
namespace chebyshev_units {
namespace {

/// sum_c e^{G - G_c} k_c r_c^T of every chunk, with r the keys (to io.H) and the values (to io.S), and both e^G.
template <int W, class T>
__global__ void __launch_bounds__(threads, 4) added_kernel(ChebyshevShape s, ChebyshevPointersOf<T> io, float* faded) {
  extern __shared__ __align__(1024) unsigned char memory[];
  __shared__ Gates gates;
  constexpr int bytes = Panel<chunk_tokens>::bytes(W);
  const Panel<chunk_tokens> keys{memory}, values{memory + bytes}, weighted{memory + 2 * bytes};
  const ChunkRows at(s, int(blockIdx.x));
  load_panel<W>(at, io.k, keys);
  load_panel<W>(at, io.v, values);
  load_gates(s, io.g, at, gates);
  const float last = gates.value[chunk_tokens - 1];
  load_panel<W>(at, io.k, weighted, [&](int c) { return fast_exp(last - gates.value[c]); });
  if (threadIdx.x == 0) {
    faded[blockIdx.x] = expf(gates.key[chunk_tokens - 1]);
    faded[s.pieces() + blockIdx.x] = expf(last);
  }
  fence_async_proxy();
  Rows<W> sums;
#pragma unroll 1
  for (int block = 0; block < state_blocks<W>; ++block) {
    multiply_outer(s.decay_keys ? weighted : keys, block, keys, sums);
    store_state(sums, block, state_of<W>(io.H, blockIdx.x));
    multiply_outer(weighted, block, values, sums);
    store_state(sums, block, state_of<W>(io.S, blockIdx.x));
  }
}

/// This thread's part of |H|_F^2.
template <int W>
__device__ float squares_of(Panel<W> state) {
  float sum = 0;
  for (int i = threadIdx.x; i < W * W / 8; i += threads) {
    const uint4 piece = *reinterpret_cast<const uint4*>(state.memory + state.place(i / (W / 8), i % (W / 8) * 8));
    for (const std::uint32_t two : {piece.x, piece.y, piece.z, piece.w})
      sum += low_of(two) * low_of(two) + high_of(two) * high_of(two);
  }
  return sum;
}

/// Computes |H_c|_F and lambda_c from the products H_c k_c; `square` is this thread's part of |H|_F^2 before the chunk.
template <int W, class T>
__device__ __forceinline__ void measure(const ChebyshevShape& s, const ChebyshevPointersOf<T>& io, const ChunkRows& at,
                                        const Gates& gates, float square, const Rows<W>& product) {
  __shared__ SquareSteps steps;
  float overlap[2] = {}, own[2] = {};
  each_pair<W>(at, [&](std::size_t, std::size_t place, int n, int half) {
    const float2 k = two_of(io.k + place);
    overlap[half] += product.cell[n][2 * half] * k.x + product.cell[n][2 * half + 1] * k.y;
    own[half] += k.x * k.x + k.y * k.y;
  });
  unrolled<2>([&](int half) {
    const float k2 = sum_of_lanes<4>(own[half]), inner = sum_of_lanes<4>(overlap[half]);
    steps.set(token_of(half), gates, inner, k2);
  });
  put_norms(s, io, at, steps, square);
}

template <int W, class T>
__global__ void __launch_bounds__(threads, 2) solve_kernel(ChebyshevShape s, ChebyshevPointersOf<T> io, T* y) {
  extern __shared__ __align__(1024) unsigned char memory[];
  __shared__ Gates gates;
  RecursionMemory<W> shared(memory);
  const ChunkRows at(s, int(blockIdx.x));
  shared.load(s, io, at, gates, gates.key, true);
  Rows<W> x, residual;
  Left<W> left;
  {
    const Faded faded(gates.key);
    load_rows(at, io.k, faded.factor, x);
    left.round(x);
    x.clear();
    read<W, false>(left, shared.H, shared.keys, shared.keys, shared.weights, x);
    measure(s, io, at, gates, squares_of<W>(shared.H), x);
    load_rows(at, io.q, {-1.0f, -1.0f}, residual);
    solve_rows(s.iterations, Norms(io, at), faded, shared.H, shared.keys, shared.weights, residual, x);
  }
  each_pair<W>(at, [&](std::size_t row, std::size_t place, int n, int half) {
    float &first = x.cell[n][2 * half], &second = x.cell[n][2 * half + 1];
    store_two(io.x + place, false, first, second);
    const float alpha = io.alpha ? io.alpha[row] : s.alpha;
    const float2 q = two_of(io.q + place);
    first = q.x + alpha * (first - q.x);
    second = q.y + alpha * (second - q.y);
  });
  const Faded faded(gates.value);
  scale_rows(faded.factor, x);
  left.round(x);
  x.clear();
  if (!s.decay_keys) shared.weights.fill(gates.value);
  tiles::wait<0>();
  fence_async_proxy();
  read<W, true>(left, shared.S, shared.keys, shared.values, shared.weights, x);
  each_pair<W>(at, [&](std::size_t, std::size_t place, int n, int half) {
    store_two(y + place, false, s.scale * x.cell[n][2 * half], s.scale * x.cell[n][2 * half + 1]);
  });
}

}  // namespace
}  // namespace chebyshev_units

template <bool warpgroups, class T>
void UnitPasses<warpgroups, T>::add_chunks(float* faded) const {
  using namespace chebyshev_units;
  with_width(s.width, [&](auto W) {
    launch_chunks(added_kernel<W(), T>, 3 * Panel<chunk_tokens>::bytes(W()), stream, s, io, faded);
  });
}

template <bool warpgroups, class T>
void UnitPasses<warpgroups, T>::solve_chunks(T* y) const {
  using namespace chebyshev_units;
  with_width(s.width,
             [&](auto W) { launch_chunks(solve_kernel<W(), T>, RecursionMemory<W()>::bytes, stream, s, io, y); });
}

}  // namespace afterglow::device
