// Eigenvalues by Eigen's dense solvers.
#include "core/analysis/linear_algebra/spectrum.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>

#include "core/analysis/linear_algebra/decompositions.h"

namespace afterglow {
namespace {

constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

std::atomic<GeneralEigenSolver> large_solver = nullptr;

/// In the order of the solver; empty when the iteration does not converge.
std::vector<std::complex<double>> solved(std::span<const double> A, int n) {
  const GeneralEigenSolver elsewhere = n >= large_general ? large_solver.load() : nullptr;
  std::vector<std::complex<double>> values(static_cast<std::size_t>(n));
  if (elsewhere != nullptr && elsewhere(n, A.data(), values.data())) return values;
  const Eigen::VectorXcd here = general_eigenvalues(RowMajorView(A.data(), n, n));
  return {here.begin(), here.end()};
}

}  // namespace

void register_general_eigen_solver(GeneralEigenSolver solver) { large_solver = solver; }

bool comes_before(const std::complex<double>& a, const std::complex<double>& b) {
  const double difference = std::abs(a) - std::abs(b);
  if (std::abs(difference) > 1e-9 * (1.0 + std::abs(a))) return difference > 0;
  return std::arg(a) < std::arg(b);
}

std::vector<std::complex<double>> eigenvalues(std::span<const double> A, int n) {
  const auto size = static_cast<std::size_t>(n);
  if (n == 0 || A.size() != size * size || !RowMajorView(A.data(), n, n).allFinite()) return {};
  std::vector<std::complex<double>> result = solved(A, n);
  std::ranges::stable_sort(result, comes_before);
  return result;
}

std::vector<double> symmetric_spectrum(std::span<const double> S, int n) {
  const auto size = static_cast<std::size_t>(n);
  if (n == 0 || S.size() != size * size) return {};
  const RowMajorView matrix(S.data(), n, n);
  if (!matrix.allFinite()) return {};
  const Eigen::VectorXd rising = symmetric_eigenvalues(matrix);
  std::vector<double> values(rising.begin(), rising.end());
  std::ranges::reverse(values);
  return values;
}

SymmetricRange symmetric_range(std::span<const double> S, int n) {
  const std::vector<double> values = symmetric_spectrum(S, n);
  if (values.empty()) return {not_a_number, not_a_number};
  return {values.back(), values.front()};
}

}  // namespace afterglow
