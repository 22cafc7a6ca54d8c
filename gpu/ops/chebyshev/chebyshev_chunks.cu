// Gated KalmaNet's core in bfloat16, between the kernels of the chunks: inter-chunk state passing, S_n = f_n S_{n-1} +
// A_n with a chunk's decay f_n and addition A_n, or from the last chunk to the first. Memory-bound. Grid: (2048 numbers
// of a state, heads of all sequences, H and S).
#include "gpu/ops/chebyshev/chebyshev_dual.cuh"
#include "gpu/tile/pieces.cuh"

namespace afterglow::device {
namespace {

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
    unrolled<batch>([&](int i) {
      if (begin + i < chunks) next[i] = states[chunk(begin + i) * size];
    });
  };
  float sum[8] = {};
  load(0);
  for (int begin = 0; begin < chunks; begin += batch) {
    uint4 added[batch];
    unrolled<batch>([&](int i) { added[i] = next[i]; });
    load(begin + batch);  // before the stores below, which would delay the loads
#pragma unroll
    for (int i = 0; i < batch; ++i) {
      if (begin + i >= chunks) break;
      states[chunk(begin + i) * size] = {bf16_pair(sum[0], sum[1]), bf16_pair(sum[2], sum[3]),
                                         bf16_pair(sum[4], sum[5]), bf16_pair(sum[6], sum[7])};
      const float keep = __ldg(faded + chunk(begin + i));
      const std::uint32_t pairs[4] = {added[i].x, added[i].y, added[i].z, added[i].w};
      unrolled<4>([&](int j) {
        const float2 two = floats_of(pairs[j]);
        sum[2 * j] = keep * sum[2 * j] + two.x;
        sum[2 * j + 1] = keep * sum[2 * j + 1] + two.y;
      });
    }
  }
}

}  // namespace

void sum_over_chunks(cudaStream_t stream, const ChebyshevShape& s, float* H, float* S, const float* faded,
                     bool backwards) {
  const std::size_t size = s.square() / 8;
  const dim3 grid(blocks_for(std::int64_t(size), threads), unsigned(s.batch * s.heads), 2);
  const auto kernel = backwards ? sum_kernel<true> : sum_kernel<false>;
  kernel<<<grid, threads, 0, stream>>>(s.chunks, size, reinterpret_cast<uint4*>(H), reinterpret_cast<uint4*>(S), faded);
}

}  // namespace afterglow::device
