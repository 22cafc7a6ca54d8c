// The most probable tokens of a row of logits (core/backend/token_ranking.h): CUB sorts the vocabulary, stably, so that
// of equal logits the smaller token comes first; one block sums e^{(l - largest) / temperature} over all and writes the
// answer.
#include <cub/device/device_radix_sort.cuh>

#include "gpu/tile/map.cuh"

namespace afterglow {

using namespace device;

namespace {

void number_tokens(const CudaBackend& backend, unsigned vocab, unsigned* tokens) {
  map(backend, "rank_logits", vocab, [=] __device__(unsigned i) { tokens[i] = i; });
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
  number_tokens(*this, vocab, numbered);
  sort(tokens + row, sorted, numbered, tokens);
  launch(*this, "rank_logits", put_ranking_kernel, 1, max_threads, sorted, tokens, vocab, temperature,
         unsigned(ranked.elements() / 2), ranked.as<double>());
}

}  // namespace afterglow
