// Softmax of scores on the host, in float64.
#pragma once
#include <algorithm>
#include <cmath>
#include <span>

namespace afterglow {

/// Replaces scores by exp(score) / sum of exp(scores), with the largest score subtracted first, so that no score
/// overflows. Nothing happens to an empty span.
inline void softmax_in_place(std::span<double> scores) {
  if (scores.empty()) return;
  const double highest = *std::ranges::max_element(scores);
  double sum = 0;
  for (double& score : scores) sum += score = std::exp(score - highest);
  for (double& score : scores) score /= sum;
}

}  // namespace afterglow
