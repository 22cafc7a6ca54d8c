// Eigenvalues by Eigen's dense solvers, singular values by its divide and conquer; the largest one alone from A A^T,
// which costs a tenth.
#include "core/analysis/linear_algebra/spectrum.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <utility>

#include "core/analysis/linear_algebra/decompositions.h"
#include "core/analysis/linear_algebra/krylov.h"
#include "core/random/random.h"

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

constexpr Eigen::Index small_side = 96;    // from there on a Krylov space takes less time than all eigenvalues
constexpr double wanted_residual = 1e-12;  // of the largest eigenvalue
constexpr Eigen::Index steps_between_looks = 8;

double largest_eigenvalue(const Eigen::MatrixXd& gram) {
  const Eigen::VectorXd values = symmetric_eigenvalues(gram);
  return values.size() > 0 ? values[values.size() - 1] : std::numeric_limits<double>::quiet_NaN();
}

/// The largest eigenvalue of A A^T. The start is random, so that a pattern in A does not hide the vector that is looked
/// for, and always the same.
double largest_eigenvalue_by_products(const Eigen::MatrixXd& A) {
  Random random(0, perturbation_stream);
  Eigen::VectorXd start(A.rows());
  for (double& value : start) value = random.normal();
  Krylov krylov(std::move(start));
  for (;;) {
    krylov.advance(A * (A.transpose() * krylov.newest()));
    if (krylov.steps() % steps_between_looks != 0 && !krylov.is_complete()) continue;
    const Krylov::Ritz ritz = krylov.ritz();
    const Eigen::Index last = ritz.values.size() - 1;
    if (last < 0) return std::numeric_limits<double>::quiet_NaN();
    if (krylov.is_complete() || ritz.residuals[last] <= wanted_residual * ritz.values[last]) return ritz.values[last];
  }
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

std::vector<double> singular_values(std::span<const double> A, int rows, int columns) {
  if (rows <= 0 || columns <= 0 || A.size() != static_cast<std::size_t>(rows) * columns) return {};
  const RowMajorView matrix(A.data(), rows, columns);
  if (!matrix.allFinite()) return {};
  // Those of zeros are zeros; divide and conquer may answer with the smallest number there is.
  if (matrix.isZero(0)) return std::vector<double>(static_cast<std::size_t>(std::min(rows, columns)), 0.0);
  const Eigen::VectorXd values = singular_values_of(Eigen::MatrixXd(matrix));
  return {values.begin(), values.end()};
}

double spectral_norm(std::span<const double> A, int rows, int columns) {
  if (A.empty() && (rows == 0 || columns == 0)) return 0.0;
  const bool fits = rows > 0 && columns > 0 && A.size() == static_cast<std::size_t>(rows) * columns;
  if (!fits || !RowMajorView(A.data(), rows, columns).allFinite()) return std::numeric_limits<double>::quiet_NaN();
  const RowMajorView matrix(A.data(), rows, columns);
  const double scale = matrix.cwiseAbs().maxCoeff();  // so that squares neither overflow nor vanish
  if (scale == 0.0) return 0.0;
  const Eigen::MatrixXd wide =
      (columns >= rows ? Eigen::MatrixXd(matrix) : Eigen::MatrixXd(matrix.transpose())) / scale;
  const double square =
      wide.rows() <= small_side ? largest_eigenvalue(wide * wide.transpose()) : largest_eigenvalue_by_products(wide);
  return scale * std::sqrt(std::max(square, 0.0));
}

int numerical_rank(std::span<const double> singular_values, double relative) {
  if (singular_values.empty()) return 0;
  const double smallest = relative * singular_values.front();
  return static_cast<int>(std::ranges::count_if(singular_values, [&](double value) { return value > smallest; }));
}

}  // namespace afterglow
