// Gains by the tested power filter; times by their definitions.
#include "core/engine/observation/mode_numbers.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "core/analysis/koopman/power_filter.h"
#include "core/io/named.h"

namespace afterglow {

const HeadSpectrum* find_head(const Spectra* spectra, int layer, int head) {
  const auto is_it = [&](const HeadSpectrum& one) { return one.layer == layer && one.head == head; };
  return spectra == nullptr ? nullptr : find_where(spectra->heads, is_it);
}

NumberedModes numbered_modes(const Spectra* spectra, int layer, int head) {
  const HeadSpectrum* found = find_head(spectra, layer, head);
  return found ? NumberedModes{found->eigenvalues, found->identity} : NumberedModes{};
}

std::vector<double> filter_gains(std::span<const double> moduli, int power) {
  return power_gains(std::vector<std::complex<double>>(moduli.begin(), moduli.end()), power);
}

double mode_gain(const HeadSpectrum& head, std::size_t mode, int power) {
  const std::complex<double> lambda = head.scale * head.eigenvalues[mode];
  const std::vector<double> gains = power_gains({&lambda, 1}, power);
  return gains.empty() ? std::nan("") : gains.front();
}

ModeTimes mode_times(const std::complex<double>& lambda) {
  constexpr double infinite = std::numeric_limits<double>::infinity();
  ModeTimes times;
  times.modulus = std::abs(lambda);
  times.angle = std::abs(std::arg(lambda));
  times.half_life = times.modulus <= 0 ? 0 : times.modulus < 1 ? std::log(0.5) / std::log(times.modulus) : infinite;
  times.period = times.angle > 0 ? 2 * std::numbers::pi / times.angle : infinite;
  return times;
}

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
