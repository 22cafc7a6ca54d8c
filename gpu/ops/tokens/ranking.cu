// The most probable tokens of a row of logits (core/backend/token_ranking.h): CUB sorts the vocabulary, stably, so that
// of equal logits the smaller token comes first; one block sums e^{(l - largest) / temperature} over all and writes the
// answer. Alone the largest is found without an order of the others.
#include <cub/device/device_radix_sort.cuh>

#include "gpu/tile/map.cuh"

namespace afterglow {

using namespace device;

namespace {

/// Larger for a larger logit, of equal ones for the smaller token; largest for NaN.
__device__ unsigned long long rank_of(float logit, unsigned token) {
  const unsigned bits = __float_as_uint(logit + 0.0f);  // of -0, too, those of 0
  const unsigned order = isnan(logit) ? ~0u : (bits >> 31) != 0 ? ~bits : bits | 1u << 31;
  return static_cast<unsigned long long>(order) << 32 | ~token;
}

constexpr unsigned largest_warps = 128;

__device__ unsigned long long largest_of_warp(unsigned long long best) {
  unrolled<5>([&](unsigned k) { best = max(best, __shfl_xor_sync(full_warp, best, 16 >> k)); });
  return best;
}

/// The first of the largest logits alone, by blocks of a warp: the last one chooses among those of all.
__global__ void __launch_bounds__(32) put_largest_kernel(const float* logits, unsigned vocab, unsigned long long* found,
                                                         unsigned* ticket, double* ranked) {
  wait_for_previous_kernel();
  unsigned long long best = 0;
#pragma unroll 8
  for (unsigned i = blockIdx.x * 32 + threadIdx.x; i < vocab; i += largest_warps * 32)
    best = max(best, rank_of(logits[i], i));
  best = largest_of_warp(best);
  if (threadIdx.x == 0) found[blockIdx.x] = best;
  if (!is_last_block(ticket, largest_warps)) return;
  for (unsigned i = threadIdx.x; i < largest_warps; i += 32) best = max(best, found[i]);
  const auto token = ~unsigned(largest_of_warp(best));
  if (threadIdx.x > 0) return;
  ranked[0] = 0;
  ranked[1] = logits[token];
  ranked[2] = token;
}

/// `logits` and `tokens` are sorted, the most probable first.
__global__ void __launch_bounds__(max_threads)
    put_ranking_kernel(const float* logits, const unsigned* tokens, unsigned vocab, double temperature, unsigned kept,
                       double* ranked) {
  wait_for_previous_kernel();
  __shared__ double sums[32];
  const double largest = logits[0];
  double sum = 0;
  for (unsigned i = threadIdx.x; temperature > 0 && i < vocab; i += max_threads)
    sum += exp((double(logits[i]) - largest) / temperature);
  sum = block_sum(sum, sums);
  if (threadIdx.x == 0) ranked[0] = sum;
  // NaN is first or, with the sign of a negative number, last.
  const float first = isnan(logits[vocab - 1]) ? logits[vocab - 1] : logits[0];
  for (unsigned i = threadIdx.x; i < kept; i += max_threads) {
    ranked[1 + i] = i == 0 ? first : logits[i];
    ranked[1 + kept + i] = tokens[i];
  }
}

}  // namespace

void CudaBackend::rank_logits(const Tensor& logits, double temperature, const Tensor& ranked) {
  const auto vocab = unsigned(logits.elements());
  if (ranked.elements() == 3 && temperature <= 0)
    return launch(*this, "rank_logits", put_largest_kernel, largest_warps, 32, rows_of(logits).data, vocab,
                  reinterpret_cast<unsigned long long*>(scratch(2 * largest_warps)), tickets(), ranked.as<double>());
  std::size_t bytes = 0;
  const auto sort = [&](void* memory, float* sorted, const unsigned* from, unsigned* tokens) {
    check_cuda(cub::DeviceRadixSort::SortPairsDescending(memory, bytes, rows_of(logits).data, sorted, from, tokens,
                                                         int(vocab), 0, 32, stream()),
               "rank_logits");
  };
  sort(nullptr, nullptr, nullptr, nullptr);  // asks for the bytes
  const std::size_t row = (std::size_t{vocab} + 63) / 64 * 64;
  float* const sorted = scratch(3 * row + bytes / sizeof(float) + 1);
  auto *numbered = reinterpret_cast<unsigned*>(sorted + row), *tokens = numbered + row;
  map(*this, "rank_logits", vocab, [=] __device__(unsigned i) { numbered[i] = i; });
  sort(tokens + row, sorted, numbered, tokens);
  launch(*this, "rank_logits", put_ranking_kernel, 1, max_threads, sorted, tokens, vocab, temperature,
         unsigned(ranked.elements() / 2), ranked.as<double>());
}

}  // namespace afterglow
