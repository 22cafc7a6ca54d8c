// Names of what a device may compute in, and what every back end may compute by other kernels of the list.
#include "core/backend/backend.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "core/backend/token_ranking.h"

namespace afterglow {

const char* name_of(Precision precision) {
  static constexpr std::array names{"fp32", "tf32", "bf16"};
  return names[static_cast<std::size_t>(precision)];
}

void linear_backward_by_parts(Backend& backend, const LinearBackward& projections) {
  const auto& [dresults, weights, x, kept, dweights, dbiases, dx] = projections;
  {
    const SideStream side_stream(backend);
    backend.linear_gradients(dresults, x, dweights, dbiases);
  }
  if (dresults.size() > 1) return backend.gemm_sum(dresults, weights, dx);
  if (dx.wanted()) backend.gemm(false, false, 1.0, dresults[0], weights[0], dx.accumulate ? 1.0 : 0.0, dx.tensor);
}

// A partial sort: the vocabulary behind the ranked tokens needs no order.
std::vector<double> ranked_logits(std::span<const double> logits, double temperature, std::size_t count) {
  if (std::ranges::any_of(logits, [](double one) { return std::isnan(one); }))
    return std::vector<double>(1 + 2 * count, std::numeric_limits<double>::quiet_NaN());
  std::vector<std::size_t> order(logits.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto ranks_higher = [&](std::size_t a, std::size_t b) {
    return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
  };
  std::ranges::partial_sort(order, order.begin() + static_cast<std::ptrdiff_t>(count), ranks_higher);
  std::vector<double> ranked{0};
  const double largest = logits[order.front()];
  for (const double logit : logits) {
    if (temperature <= 0) break;
    ranked.front() += std::exp((logit - largest) / temperature);
  }
  order.resize(count);
  for (const std::size_t token : order) ranked.push_back(logits[token]);
  ranked.insert(ranked.end(), order.begin(), order.end());
  return ranked;
}

}  // namespace afterglow
