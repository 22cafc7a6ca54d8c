// The Chebyshev solves of Gated KalmaNet on tensor cores, forward (with norms and readout) and backward (the dual
// solve). One block of four warps a chunk; the chunk's state and panels are in shared memory, everything else in
// registers.
#include "gpu/chebyshev/chebyshev_dual.cuh"
#include "gpu/chebyshev/chebyshev_mma.cuh"
#include "gpu/cuda_backend.h"

namespace afterglow {

using namespace device;

namespace {

using matrix_units::each_inside;
using matrix_units::Left;
using matrix_units::load_panel;
using matrix_units::load_rows;
using matrix_units::load_state;
using matrix_units::Number;
using matrix_units::Past;
using matrix_units::row_sum;
using matrix_units::state_of;
using matrix_units::token_of;

/// This thread's part of |H|_F^2.
template <int W>
__device__ float squares_of(const Number* state) {
  float sum = 0;
  for (int i = threadIdx.x; i < W * W / 2; i += matrix_units::threads) {
    const auto two = *reinterpret_cast<const std::uint32_t*>(state + i / (W / 2) * (W + 8) + i % (W / 2) * 2);
    sum +=
        matrix_units::low_of(two) * matrix_units::low_of(two) + matrix_units::high_of(two) * matrix_units::high_of(two);
  }
  return sum;
}

/// Computes |H_c|_F and lambda_c from the products H_c k_c; `square` is this thread's part of |H|_F^2 before the chunk.
template <int W>
__device__ __forceinline__ void measure(const ChebyshevShape& s, const ChebyshevPointers& io, const ChunkPosition& at,
                                        const Gates& gates, float square, matrix_units::Rows<W>& product) {
  __shared__ SquareSteps steps;
  float overlap[2] = {}, own[2] = {};
  each_inside(s, at, product, [&](float cell, std::size_t row, int column, int half) {
    const float k = io.k[row * W + column];
    overlap[half] += cell * k;
    own[half] += k * k;
  });
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float k2 = row_sum(own[half]);
    steps.set(token_of(half), gates, row_sum(overlap[half]), k2);
  }
  put_norms(s, io, at, steps, square);
}

__device__ void load_norms(const ChebyshevShape& s, const ChebyshevPointers& io, const ChunkPosition& at,
                           float (&fro)[2], float (&lambda)[2]) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int c = token_of(half);
    fro[half] = c < at.count ? io.fro[s.row(at.pair, at.first + c)] : 0.0f;
    lambda[half] = c < at.count ? io.lambda[s.row(at.pair, at.first + c)] : 0.0f;
  }
}

/// Shared memory of a block: a state, the chunk's keys and values, weights of pairs of tokens.
template <int W>
struct SolveMemory {
  Number *state, *keys, *values;
  uint4* weights;
  explicit __device__ SolveMemory(float4* memory)
      : state(reinterpret_cast<Number*>(memory)),
        keys(state + W * (W + 8)),
        values(keys + chunk_tokens * (W + 8)),
        weights(reinterpret_cast<uint4*>(values + chunk_tokens * (W + 8))) {}

  __device__ __forceinline__ void load(const ChebyshevShape& s, const ChebyshevPointers& io, const ChunkPosition& at,
                                       const float* states) const {
    load_state<W>(state_of<W>(states, blockIdx.x), state);
    load_panel<W>(s, at, io.k, keys);
    load_panel<W>(s, at, io.v, values);
    __syncthreads();
  }
  __device__ __forceinline__ void change_state(const float* states) const {
    __syncthreads();
    load_state<W>(state_of<W>(states, blockIdx.x), state);
    __syncthreads();
  }
};

/// The chunk's norms, and x of its tokens.
template <int W>
__device__ __forceinline__ void solve_chunk(const ChebyshevShape& s, const ChebyshevPointers& io,
                                            const ChunkPosition& at, const Gates& gates, const SolveMemory<W>& shared,
                                            matrix_units::Rows<W>& x) {
  matrix_units::Rows<W> residual;
  Left<W> left;
  const Past past(shared.weights, gates.key);
  load_rows(s, at, io.k, 1.0f, x);
  left.round(x);
  x.clear();
  past.read<W, false>(left, shared.state, shared.keys, shared.keys, x);
  measure(s, io, at, gates, squares_of<W>(shared.state), x);
  float fro[2], lambda[2];
  load_norms(s, io, at, fro, lambda);
  load_rows(s, at, io.q, -1.0f, residual);
  matrix_units::solve_rows(s.iterations, fro, lambda, shared.state, shared.keys, past, residual, x);
}

/// Writes x; rows become p = q + alpha (x - q).
template <int W>
__device__ __forceinline__ void put_solutions(const ChebyshevShape& s, const ChebyshevPointers& io,
                                              const ChunkPosition& at, matrix_units::Rows<W>& rows) {
  each_inside(s, at, rows, [&](float& cell, std::size_t row, int column, int) {
    io.x[row * W + column] = cell;
    const float alpha = io.alpha ? io.alpha[row] : s.alpha, q = io.q[row * W + column];
    cell = q + alpha * (cell - q);
  });
}

template <int W>
__global__ void __launch_bounds__(matrix_units::threads, 2)
    solve_kernel(ChebyshevShape s, ChebyshevPointers io, float* y) {
  extern __shared__ float4 aligned[];
  __shared__ Gates gates;
  const SolveMemory<W> shared(aligned);
  const ChunkPosition at(s, static_cast<int>(blockIdx.x));
  load_gates(s, io.g, at, gates);
  shared.load(s, io, at, io.H);
  matrix_units::Rows<W> rows;
  Left<W> left;
  solve_chunk(s, io, at, gates, shared, rows);
  put_solutions(s, io, at, rows);
  left.round(rows);
  rows.clear();
  shared.change_state(io.S);
  Past(shared.weights, gates.value).read<W, true>(left, shared.state, shared.keys, shared.values, rows);
  each_inside(s, at, rows, [&](float cell, std::size_t row, int column, int) { y[row * W + column] = s.scale * cell; });
}

/// Adds this lane's numbers to the sums of its tokens; dp becomes -alpha dp, and dq receives its part without z.
template <int W>
__device__ __forceinline__ void share_out(const ChebyshevShape& s, const ChebyshevPointers& io, const ChunkPosition& at,
                                          const Sinks& out, matrix_units::Rows<W>& dp, TokenShares (&shares)[2]) {
  each_inside(s, at, dp, [&](float& cell, std::size_t row, int column, int half) {
    const float alpha = io.alpha ? io.alpha[row] : s.alpha, q = io.q[row * W + column];
    const float change = io.x[row * W + column] - q;
    shares[half].value += cell * (q + alpha * change);
    shares[half].alpha += cell * change;
    if (out.q.wanted()) out.q.put(row, column, (1.0f - alpha) * cell);
    cell *= -alpha;
  });
}

/// Writes z, the rest of dq and the tokens' sums, and w of every token to shared memory. `image` is H x.
template <int W>
__device__ __forceinline__ void put_answers(const ChebyshevShape& s, const ChebyshevPointers& io,
                                            const ChunkPosition& at, const float (&fro)[2], const Dual& dual,
                                            const Sinks& out, const matrix_units::Rows<W>& image,
                                            matrix_units::Rows<W>& z, TokenShares (&shares)[2], float* w) {
#pragma unroll
  for (int n = 0; n < W / 8; ++n) {
#pragma unroll
    for (int e = 0; e < 4; ++e) shares[e / 2].image += image.cell[n][e] * z.cell[n][e];
  }
  each_inside(s, at, z, [&](float cell, std::size_t row, int column, int half) {
    shares[half].overlap += cell * io.x[row * W + column];
    dual.z[row * W + column] = cell;
    if (out.q.wanted()) out.q.rows.at(row, column) += cell;
  });
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int c = token_of(half);
    const std::size_t row = s.row(at.pair, at.first + (c < at.count ? c : 0));
    const TokenShares whole{row_sum(shares[half].overlap), row_sum(shares[half].image), row_sum(shares[half].value),
                            row_sum(shares[half].alpha)};
    if (threadIdx.x % 4 == 0) w[c] = c < at.count ? put_shares(s, dual, out, row, fro[half], whole) : 0.0f;
  }
}

template <int W>
__global__ void __launch_bounds__(matrix_units::threads, 2)
    dual_kernel(ChebyshevShape s, ChebyshevPointers io, const float* dy, Dual dual, Sinks out) {
  extern __shared__ float4 aligned[];
  __shared__ Gates gates;
  __shared__ float w[chunk_tokens];
  const SolveMemory<W> shared(aligned);
  const ChunkPosition at(s, static_cast<int>(blockIdx.x));
  load_gates(s, io.g, at, gates);
  shared.load(s, io, at, io.S);
  matrix_units::Rows<W> z, residual;
  Left<W> left;
  TokenShares shares[2] = {};
  load_rows(s, at, dy, s.scale, residual);
  left.round(residual);
  residual.clear();
  Past(shared.weights, gates.value).read<W, false>(left, shared.state, shared.values, shared.keys, residual);  // dp
  share_out(s, io, at, out, residual, shares);
  shared.change_state(io.H);
  const Past past(shared.weights, gates.key);
  float fro[2], lambda[2];
  load_norms(s, io, at, fro, lambda);
  matrix_units::solve_rows(s.iterations, fro, lambda, shared.state, shared.keys, past, residual, z);
  load_rows(s, at, io.x, 1.0f, residual);
  left.round(residual);
  residual.clear();
  past.read<W, false>(left, shared.state, shared.keys, shared.keys, residual);  // H x
  put_answers(s, io, at, fro, dual, out, residual, z, shares, w);
  put_weights(s, at, gates.key, w, dual);
}

template <int W>
void launch_solve(cudaStream_t stream, const ChebyshevShape& s, const ChebyshevPointers& io, float* y) {
  constexpr int bytes = matrix_units::bytes<W>(2) + matrix_units::weight_bytes;
  allow_shared_memory(reinterpret_cast<const void*>(solve_kernel<W>), bytes, "Gated KalmaNet");
  solve_kernel<W><<<static_cast<unsigned>(s.pieces()), matrix_units::threads, bytes, stream>>>(s, io, y);
}

template <int W>
void launch_dual(cudaStream_t stream, const ChebyshevShape& s, const ChebyshevPointers& io, const float* dy,
                 const Dual& dual, const Sinks& out) {
  constexpr int bytes = matrix_units::bytes<W>(2) + matrix_units::weight_bytes;
  allow_shared_memory(reinterpret_cast<const void*>(dual_kernel<W>), bytes, "Gated KalmaNet");
  dual_kernel<W><<<static_cast<unsigned>(s.pieces()), matrix_units::threads, bytes, stream>>>(s, io, dy, dual, out);
}

}  // namespace

template <class T>
void device::solve_on_matrix_units(cudaStream_t stream, const ChebyshevShape& s, const ChebyshevPointersOf<T>& io,
                                   T* y) {
  if (on_warpgroups(s)) return solve_on_warpgroups(stream, s, io, y);
  if constexpr (std::is_same_v<T, float>)
    matrix_units::with_width(s.width, [&](auto width) { launch_solve<width.value>(stream, s, io, y); });
}
template void device::solve_on_matrix_units(cudaStream_t, const ChebyshevShape&, const ChebyshevPointers&, float*);
template void device::solve_on_matrix_units(cudaStream_t, const ChebyshevShape&, const ChebyshevPointersOf<Bf16>&,
                                            Bf16*);

void device::dual_on_matrix_units(cudaStream_t stream, const ChebyshevShape& s, const ChebyshevPointers& io,
                                  const float* dy, const Dual& dual, const Sinks& out) {
  matrix_units::with_width(s.width, [&](auto width) { launch_dual<width.value>(stream, s, io, dy, dual, out); });
}

}  // namespace afterglow
