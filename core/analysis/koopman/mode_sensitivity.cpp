// Left eigenvectors are the rows of the inverse of the right ones.
#include "core/analysis/koopman/mode_sensitivity.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/analysis/linear_algebra/decompositions.h"
#include "core/analysis/linear_algebra/spectrum.h"

namespace afterglow {
namespace {

/// u^H dA v of two modes.
std::complex<double> coupling(const ModeSensitivity& to, const ModeSensitivity& from, std::span<const double> dA) {
  const std::size_t r = from.right.size();
  std::complex<double> sum = 0;
  for (std::size_t a = 0; a < r; ++a) {
    for (std::size_t b = 0; b < r; ++b) sum += to.left[a] * dA[a * r + b] * from.right[b];
  }
  return sum;
}

}  // namespace

std::vector<ModeSensitivity> mode_sensitivities(std::span<const double> A, int r) {
  std::vector<ModeSensitivity> modes;
  const RowMajorView matrix(A.data(), r, r);
  if (r == 0 || !matrix.allFinite()) return modes;
  const Eigenpairs pairs = eigenpairs(matrix);
  if (pairs.values.size() == 0) return modes;
  const Eigen::MatrixXcd left = inverse(pairs.vectors);
  for (Eigen::Index i = 0; i < r; ++i) {
    const double condition = left.row(i).norm() * pairs.vectors.col(i).norm();
    ModeSensitivity& mode = modes.emplace_back();
    mode.value = pairs.values[i];
    mode.condition = std::isfinite(condition) ? condition : std::numeric_limits<double>::infinity();
    for (Eigen::Index a = 0; a < r; ++a) {
      mode.left.push_back(left(i, a));
      mode.right.push_back(pairs.vectors(a, i));
    }
  }
  std::ranges::stable_sort(modes, comes_before, &ModeSensitivity::value);
  return modes;
}

std::complex<double> first_order_move(const ModeSensitivity& mode, std::span<const double> dA) {
  return coupling(mode, mode, dA);
}

bool first_order_holds(std::span<const ModeSensitivity> modes, std::size_t i, std::span<const double> dA) {
  if (!(modes[i].condition < defective_condition)) return false;
  std::complex<double> second = 0;
  for (std::size_t j = 0; j < modes.size(); ++j) {
    if (j != i)
      second += coupling(modes[i], modes[j], dA) * coupling(modes[j], modes[i], dA) / (modes[i].value - modes[j].value);
  }
  return std::abs(second) <= std::abs(first_order_move(modes[i], dA)) / 2;
}

std::vector<int> nearest_of_each(std::span<const std::complex<double>> expected,
                                 std::span<const std::complex<double>> values) {
  struct Pairing {
    double distance;
    std::size_t wanted, found;
  };
  std::vector<Pairing> pairings;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    for (std::size_t j = 0; j < values.size(); ++j) {
      const double distance = std::abs(expected[i] - values[j]);
      if (std::isfinite(distance)) pairings.push_back({distance, i, j});
    }
  }
  std::ranges::stable_sort(pairings, {}, &Pairing::distance);
  std::vector<int> meant(expected.size(), -1);
  std::vector<bool> is_taken(values.size(), false);
  for (const Pairing& pairing : pairings) {
    if (meant[pairing.wanted] >= 0 || is_taken[pairing.found]) continue;
    meant[pairing.wanted] = static_cast<int>(pairing.found);
    is_taken[pairing.found] = true;
  }
  return meant;
}

}  // namespace afterglow
