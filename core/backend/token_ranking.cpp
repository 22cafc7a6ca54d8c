// A partial sort: the vocabulary behind the ranked tokens needs no order.
#include "core/backend/token_ranking.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace afterglow {

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
