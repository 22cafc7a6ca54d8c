// Singular values by Eigen's divide and conquer; the largest of a large matrix by Lanczos, which costs a tenth.
#include "core/analysis/linear_algebra/singular_values.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "core/analysis/linear_algebra/decompositions.h"
#include "core/analysis/linear_algebra/krylov.h"
#include "core/random/random.h"

namespace afterglow {

namespace {

using RowMajor = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using MatrixView = Eigen::Map<const RowMajor>;

constexpr int small_side = 32;             // up to it all singular values take no more than 0.3 ms
constexpr double wanted_residual = 1e-12;  // of the largest eigenvalue of A^T A
constexpr Eigen::Index steps_between_looks = 8;

/// The largest eigenvalue of A^T A or A A^T, whichever is smaller. The start is random, so that a pattern in A does not
/// hide the vector that is looked for, and always the same.
double largest_square(const Eigen::MatrixXd& A) {
  const bool is_wide = A.cols() > A.rows();
  Random random(0, perturbation_stream);
  Eigen::VectorXd start(std::min(A.rows(), A.cols()));
  for (double& value : start) value = random.normal();
  Krylov krylov(std::move(start));
  for (;;) {
    const Eigen::VectorXd x = krylov.newest();
    krylov.advance(is_wide ? Eigen::VectorXd(A * (A.transpose() * x)) : Eigen::VectorXd(A.transpose() * (A * x)));
    if (krylov.steps() % steps_between_looks != 0 && !krylov.is_complete()) continue;
    const Krylov::Ritz ritz = krylov.ritz();
    const Eigen::Index last = ritz.values.size() - 1;
    if (last < 0) return std::numeric_limits<double>::quiet_NaN();
    if (krylov.is_complete() || ritz.residuals[last] <= wanted_residual * ritz.values[last])
      return std::max(ritz.values[last], 0.0);
  }
}

}  // namespace

std::vector<double> singular_values(std::span<const double> A, int rows, int columns) {
  if (rows <= 0 || columns <= 0 || A.size() != static_cast<std::size_t>(rows) * columns) return {};
  const MatrixView matrix(A.data(), rows, columns);
  if (!matrix.allFinite()) return {};
  // Those of zeros are zeros; divide and conquer may answer with the smallest number there is.
  if (matrix.isZero(0)) return std::vector<double>(static_cast<std::size_t>(std::min(rows, columns)), 0.0);
  const Eigen::VectorXd values = singular_values_of(Eigen::MatrixXd(matrix));
  return {values.begin(), values.end()};
}

double spectral_norm(std::span<const double> A, int rows, int columns) {
  if (A.empty() && (rows == 0 || columns == 0)) return 0.0;
  if (std::min(rows, columns) <= small_side || A.size() != static_cast<std::size_t>(rows) * columns) {
    const std::vector<double> values = singular_values(A, rows, columns);
    return values.empty() ? std::numeric_limits<double>::quiet_NaN() : values.front();
  }
  const MatrixView matrix(A.data(), rows, columns);
  const double scale = matrix.cwiseAbs().maxCoeff();  // so that squares neither overflow nor vanish
  if (!matrix.allFinite()) return std::numeric_limits<double>::quiet_NaN();
  return scale > 0 ? scale * std::sqrt(largest_square(matrix / scale)) : 0.0;
}

int numerical_rank(std::span<const double> singular_values, double relative) {
  if (singular_values.empty()) return 0;
  const double smallest = relative * singular_values.front();
  return static_cast<int>(
      std::count_if(singular_values.begin(), singular_values.end(), [&](double value) { return value > smallest; }));
}

}  // namespace afterglow
