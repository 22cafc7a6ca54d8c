// Gated KalmaNet's core by warp groups, forward: what every chunk adds to the states, then norms, Chebyshev iteration
// and readout of every chunk.
#include "gpu/cuda_chebyshev_warpgroup.cuh"

namespace afterglow::device {

namespace warpgroup {
namespace {

/// sum_c e^{G - G_c} k_c r_c^T of every chunk, r the keys (to io.H) and the values (to io.S), and both e^G.
template <int W>
__global__ void __launch_bounds__(threads, 4) added_kernel(ChebyshevShape s, ChebyshevPointers io, float* faded) {
  extern __shared__ __align__(1024) unsigned char memory[];
  __shared__ Gates gates;
  __shared__ float weights[chunk_tokens];
  constexpr int bytes = Panel<chunk_tokens>::bytes(W);
  const Panel<chunk_tokens> keys{memory}, values{memory + bytes}, weighted{memory + 2 * bytes};
  const ChunkRows at(s, static_cast<int>(blockIdx.x));
  load_panel<W, 8>(at, io.v, values);
  load_gates(s, io.g, at, gates);
  const float last = gates.value[chunk_tokens - 1];
  if (threadIdx.x < chunk_tokens) weights[threadIdx.x] = fast_exp(last - gates.value[threadIdx.x]);
  __syncthreads();
  each_loaded<W, 8>(at, io.k, [&](int c, int place, const float4& k, std::uint32_t mask) {
    put_in_panel(keys, c, place, k, mask);
    put_in_panel(weighted, c, place, scaled(weights[c], k), mask);
  });
  if (threadIdx.x == 0) {
    faded[blockIdx.x] = expf(gates.key[chunk_tokens - 1]);
    faded[s.pieces() + blockIdx.x] = expf(last);
  }
  publish();
  Rows<W> sums;
#pragma unroll 1
  for (int block = 0; block < W / 64; ++block) {
    multiply_outer(s.decay_keys ? weighted : keys, block, keys, sums);
    store_state(sums, block, state_to<W>(io.H, blockIdx.x));
    multiply_outer(weighted, block, values, sums);
    store_state(sums, block, state_to<W>(io.S, blockIdx.x));
  }
}

/// This thread's part of |H|_F^2.
template <int W>
__device__ float squares_of(Panel<W> state) {
  const auto* pieces = reinterpret_cast<const uint4*>(state.memory);
  float sum = 0;
  for (int i = threadIdx.x; i < W * W / 8; i += threads) {
    const uint4 piece = pieces[i];
    for (const std::uint32_t two : {piece.x, piece.y, piece.z, piece.w})
      sum += low_of(two) * low_of(two) + high_of(two) * high_of(two);
  }
  return sum;
}

/// |H_c|_F and lambda_c from products H_c k_c; `square` is this thread's part of |H|_F^2 before the chunk.
template <int W>
__device__ __forceinline__ void measure(const ChebyshevShape& s, const ChebyshevPointers& io, const ChunkRows& at,
                                        const Gates& gates, float square, Rows<W>& product) {
  __shared__ SquareSteps steps;
  float overlap[2] = {}, own[2] = {};
  each_four<W>(at, [&](std::size_t, std::size_t place, int n, int half) {
    const float4 k = four_of(io.k, place);
    overlap[half] += dot(Four<W>(product, n, half), k);
    own[half] += dot(k, k);
  });
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float k2 = row_sum(own[half]);
    steps.set(token_of(half), gates, row_sum(overlap[half]), k2);
  }
  put_norms(s, io, at, steps, square);
}

/// The chunk's norms, and x of its tokens.
template <int W>
__device__ __forceinline__ void solve_chunk(const ChebyshevShape& s, const ChebyshevPointers& io, const ChunkRows& at,
                                            const Gates& gates, const Memory<W>& shared, Rows<W>& x) {
  const Faded faded(gates.key);
  Rows<W> residual;
  Left<W> keys;
  load_rows(at, io.k, faded.factor, x);
  keys.round(x);
  x.clear();
  read<W, false>(keys, shared.H, shared.keys, shared.keys, shared.weights, x);
  measure(s, io, at, gates, squares_of<W>(shared.H), x);
  load_rows(at, io.q, {-1.0f, -1.0f}, residual);
  solve_rows(s.iterations, Norms(io, at), faded, shared.H, shared.keys, shared.weights, residual, x);
}

/// Writes x; rows become p = q + alpha (x - q).
template <int W>
__device__ __forceinline__ void put_solutions(const ChebyshevShape& s, const ChebyshevPointers& io, const ChunkRows& at,
                                              Rows<W>& rows) {
  float4 q[W / 8];  // all are read before the first x is written: a read does not pass a write
  each_four<W>(at,
               [&](std::size_t, std::size_t place, int n, int half) { q[half * (W / 16) + n] = four_of(io.q, place); });
  each_four<W>(at, [&](std::size_t row, std::size_t place, int n, int half) {
    const Four<W> cells(rows, n, half);
    const float4 x = cells;
    put_four(io.x + place, x);
    cells = mixed(q[half * (W / 16) + n], x, io.alpha ? __ldg(io.alpha + row) : s.alpha);
  });
}

/// y from p, which is used up.
template <int W>
__device__ __forceinline__ void read_out(const ChebyshevShape& s, const ChunkRows& at, const Gates& gates,
                                         const Memory<W>& shared, Rows<W>& rows, float* y) {
  Left<W> p;
  scale_rows(Faded(gates.value).factor, rows);
  p.round(rows);
  rows.clear();
  if (!s.decay_keys) fill_weights(gates.value, shared.weights);
  await_copies<0>();
  publish();
  read<W, true>(p, shared.S, shared.keys, shared.values, shared.weights, rows);
  each_four<W>(at, [&](std::size_t, std::size_t place, int n, int half) {
    put_four(y + place, scaled(s.scale, Four<W>(rows, n, half)));
  });
}

template <int W>
__global__ void __launch_bounds__(threads, 2) solve_kernel(ChebyshevShape s, ChebyshevPointers io, float* y) {
  extern __shared__ __align__(1024) unsigned char memory[];
  __shared__ Gates gates;
  const Memory<W> shared(memory);
  const ChunkRows at(s, static_cast<int>(blockIdx.x));
  begin_state<W>(state_of<W>(io.H, blockIdx.x), shared.H);
  begin_state<W>(state_of<W>(io.S, blockIdx.x), shared.S);
  load_panel<W, 16>(at, io.k, shared.keys);
  load_panel<W, 16>(at, io.v, shared.values);
  load_gates(s, io.g, at, gates);
  fill_weights(gates.key, shared.weights);
  await_copies<1>();
  publish();
  Rows<W> rows;
  solve_chunk(s, io, at, gates, shared, rows);
  put_solutions(s, io, at, rows);
  read_out(s, at, gates, shared, rows, y);
}

}  // namespace
}  // namespace warpgroup

bool has_warpgroups() {
  static const bool result = [] {
    int device = 0, major = 0, minor = 0;
    return cudaGetDevice(&device) == cudaSuccess &&
           cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) == cudaSuccess &&
           cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device) == cudaSuccess && major == 9 &&
           minor == 0;
  }();
  return result;
}

void added_on_warpgroups(cudaStream_t stream, const ChebyshevShape& s, const ChebyshevPointers& io, float* faded) {
  warpgroup::with_width(s.width, [&](auto width) {
    constexpr int W = width.value, bytes = 3 * warpgroup::Panel<chunk_tokens>::bytes(W);
    allow_shared_memory(reinterpret_cast<const void*>(warpgroup::added_kernel<W>), bytes, "Gated KalmaNet");
    warpgroup::added_kernel<W><<<static_cast<unsigned>(s.pieces()), warpgroup::threads, bytes, stream>>>(s, io, faded);
  });
}

void solve_on_warpgroups(cudaStream_t stream, const ChebyshevShape& s, const ChebyshevPointers& io, float* y) {
  warpgroup::with_width(s.width, [&](auto width) {
    constexpr int W = width.value, bytes = warpgroup::Memory<W>::bytes;
    allow_shared_memory(reinterpret_cast<const void*>(warpgroup::solve_kernel<W>), bytes, "Gated KalmaNet");
    warpgroup::solve_kernel<W><<<static_cast<unsigned>(s.pieces()), warpgroup::threads, bytes, stream>>>(s, io, y);
  });
}

}  // namespace afterglow::device
