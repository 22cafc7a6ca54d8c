// Sums and quotients of a Gram matrix' eigenvalues.
#include "core/engine/observation/gram_spectrum.h"

#include <algorithm>
#include <cmath>

namespace afterglow {

std::vector<double> ridge_shrinkage(std::span<const double> gram, double ridge) {
  std::vector<double> kept;
  for (const double value : gram) {
    const double sigma = value < 0.0 ? 0.0 : value;
    kept.push_back(sigma / (sigma + ridge));
  }
  return kept;
}

GramSize gram_size(std::span<const double> gram) {
  GramSize size;
  if (gram.empty()) return size;
  double squares = 0.0;
  for (const double value : gram) {
    size.trace += value;
    squares += value * value;
  }
  size.frobenius = std::sqrt(squares);
  size.largest = *std::ranges::max_element(gram);
  return size;
}

}  // namespace afterglow
