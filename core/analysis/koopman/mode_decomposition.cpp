// Eigenvalues with energies, and their tracking.
#include "core/analysis/koopman/mode_decomposition.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

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

using Complex = std::complex<double>;

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

ModeDecomposition decompose_modes(std::span<const double> A, int r, std::span<const double> w) {
  ModeDecomposition result;
  const RowMajorView matrix(A.data(), r, r);
  if (r == 0 || !matrix.allFinite()) return result;
  const Eigenpairs pairs = eigenpairs(matrix);
  if (pairs.values.size() == 0) return result;

  Eigen::VectorXd shares = Eigen::VectorXd::Constant(r, 1.0 / r);
  if (!w.empty()) {
    const Eigen::Map<const Eigen::VectorXd> query(w.data(), r);
    const Eigen::VectorXcd coefficients = solve_with_full_pivoting(pairs.vectors, query.cast<Complex>());
    const Eigen::VectorXd energy = coefficients.cwiseAbs2();
    if (energy.allFinite() && energy.sum() > 0) shares = energy / energy.sum();
  }
  std::vector<int> order(static_cast<std::size_t>(r));
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](int a, int b) { return comes_before(pairs.values[a], pairs.values[b]); });
  for (const int i : order) {
    result.eigenvalues.push_back(pairs.values[i]);
    result.energy.push_back(shares[i]);
  }
  return result;
}

std::vector<int> track_modes(const NumberedModes& before, const std::vector<Complex>& now) {
  std::vector<int> numbers(now.size(), -1);
  for (std::size_t old = 0; const int meant : nearest_of_each(before.eigenvalues, now)) {
    if (meant >= 0) numbers[static_cast<std::size_t>(meant)] = before.numbers[old];
    ++old;
  }
  // A mode that has no predecessor takes the smallest free number.
  int next = 0;
  for (int& number : numbers) {
    if (number >= 0) continue;
    while (std::ranges::find(numbers, next) != numbers.end()) ++next;
    number = next;
  }
  return numbers;
}

std::vector<double> solve_lower(std::span<const double> L, int r, std::span<const double> b) {
  std::vector<double> x(b.begin(), b.end());
  Eigen::Map<Eigen::VectorXd> solution(x.data(), r);
  RowMajorView(L.data(), r, r).triangularView<Eigen::Lower>().solveInPlace(solution);
  return x;
}

}  // namespace afterglow
