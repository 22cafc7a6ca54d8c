// Gated KalmaNet's core by warp groups, backward: the dual solve of every chunk.
#include "gpu/cuda_chebyshev_warpgroup.cuh"

namespace afterglow::device {

namespace warpgroup {
namespace {

/// Solves a chunk's dual system. Every thread keeps (1 - alpha) dp of its rows, which the solve leaves no registers
/// for, where the readout's state was.
template <int W>
struct DualSolve {
  const ChebyshevShape& s;
  const ChebyshevPointers& io;
  const ChunkRows& at;
  const Gates& gates;
  const Memory<W>& shared;
  const Sinks& out;
  const Dual& dual;
  float4* past = reinterpret_cast<float4*>(shared.S.memory) + threadIdx.x;

  __device__ static int past_place(int n, int half) { return (half * (W / 16) + n) * threads; }

  /// dp: what the readout asks of p.
  __device__ __forceinline__ void read_back(const float* dy, Rows<W>& dp) const {
    Left<W> upstream;
    const Faded faded(gates.value);
    load_rows(at, dy, {s.scale * faded.factor[0], s.scale * faded.factor[1]}, dp);
    upstream.round(dp);
    dp.clear();
    read<W, false>(upstream, shared.S, shared.values, shared.keys, shared.weights, dp);
    __syncthreads();  // the last to read S
  }

  /// Writes p, p . dp and dalpha; dp becomes -alpha dp, the right-hand side's negative.
  __device__ __forceinline__ void share_out(Rows<W>& dp) const {
    Left<W> p{};
    float values[2] = {}, alphas[2] = {};
    each_four<W>(at, [&](std::size_t row, std::size_t place, int n, int half) {
      const float alpha = io.alpha ? __ldg(io.alpha + row) : s.alpha;
      const float4 q = four_of(io.q, place), x = four_of(io.x, place);
      const Four<W> cells(dp, n, half);
      p.pair[n][half] = packed(q.x + alpha * (x.x - q.x), q.y + alpha * (x.y - q.y));
      p.pair[n][2 + half] = packed(q.z + alpha * (x.z - q.z), q.w + alpha * (x.w - q.w));
      const std::uint32_t low = p.pair[n][half], high = p.pair[n][2 + half];
      values[half] += dot(cells, {low_of(low), high_of(low), low_of(high), high_of(high)});
      alphas[half] += dot(cells, {x.x - q.x, x.y - q.y, x.z - q.z, x.w - q.w});
      past[past_place(n, half)] = scaled(1.0f - alpha, cells);
      cells = scaled(-alpha, cells);
    });
    put_rounded(at, p, rounded_answers(dual).p);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float value = row_sum(values[half]), alpha = row_sum(alphas[half]);
      const int c = token_of(half);
      if (threadIdx.x % 4 != 0 || c >= at.count) continue;
      dual.value_share[at.row(c)] = value;
      if (out.alpha.wanted()) out.alpha.put(static_cast<unsigned>(at.row(c)), alpha);
    }
  }

  /// Writes z, w and dq, which z becomes.
  __device__ __forceinline__ void finish(const Norms& norms, Rows<W>& z) const {
    float overlap[2];
    overlaps(at, z, io.x, overlap);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int c = token_of(half);
      if (threadIdx.x % 4 != 0 || c >= at.count) continue;
      const float own = weight_of(s, norms.fro[half], overlap[half]);
      dual.later[at.row(c)] = own;
      dual.key_share[at.row(c)] = -0.5f * own * norms.fro[half] * norms.fro[half];
    }
    Left<W> rounded_z;
    rounded_z.round(z);
    put_rounded(at, rounded_z, rounded_answers(dual).z);
    if (!out.q.wanted()) return;
    each_four<W>(at, [&](std::size_t, std::size_t, int n, int half) {
      const Four<W> cells(z, n, half);
      const float4 more = past[past_place(n, half)];
      cells = float4{cells.x + more.x, cells.y + more.y, cells.z + more.z, cells.w + more.w};
    });
    put_rows(at, out.q.rows, out.q.accumulate, z);
  }
};

template <int W>
__global__ void __launch_bounds__(threads, 2)
    dual_kernel(ChebyshevShape s, ChebyshevPointers io, const float* dy, Dual dual, Sinks out) {
  extern __shared__ __align__(1024) unsigned char memory[];
  __shared__ Gates gates;
  const Memory<W> shared(memory);
  const ChunkRows at(s, static_cast<int>(blockIdx.x));
  begin_state<W>(state_of<W>(io.S, blockIdx.x), shared.S);
  begin_state<W>(state_of<W>(io.H, blockIdx.x), shared.H);
  load_panel<W, 16>(at, io.k, shared.keys);
  load_panel<W, 16>(at, io.v, shared.values);
  load_gates(s, io.g, at, gates);
  fill_weights(gates.value, shared.weights);
  await_copies<1>();
  publish();
  const DualSolve<W> solve{s, io, at, gates, shared, out, dual};
  Rows<W> residual, z;
  solve.read_back(dy, residual);
  solve.share_out(residual);
  if (!s.decay_keys) fill_weights(gates.key, shared.weights);
  await_copies<0>();
  publish();
  const Norms norms(io, at);
  solve_rows(s.iterations, norms, Faded(gates.key), shared.H, shared.keys, shared.weights, residual, z);
  solve.finish(norms, z);
}

}  // namespace
}  // namespace warpgroup

void dual_on_warpgroups(cudaStream_t stream, const ChebyshevShape& s, const ChebyshevPointers& io, const float* dy,
                        const Dual& dual, const Sinks& out) {
  warpgroup::with_width(s.width, [&](auto width) {
    constexpr int W = width.value, bytes = warpgroup::Memory<W>::bytes;
    allow_shared_memory(reinterpret_cast<const void*>(warpgroup::dual_kernel<W>), bytes, "Gated KalmaNet");
    warpgroup::dual_kernel<W>
        <<<static_cast<unsigned>(s.pieces()), warpgroup::threads, bytes, stream>>>(s, io, dy, dual, out);
  });
}

}  // namespace afterglow::device
