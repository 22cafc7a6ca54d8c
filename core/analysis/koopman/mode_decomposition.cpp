// Eigenvalues with energies, and their tracking.
#include "core/analysis/koopman/mode_decomposition.h"

#include <algorithm>
#include <numeric>

#include "core/analysis/koopman/mode_sensitivity.h"
#include "core/analysis/linear_algebra/decompositions.h"
#include "core/analysis/linear_algebra/spectrum.h"

namespace afterglow {
namespace {

using Complex = std::complex<double>;

}  // namespace

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
