// Singular values by Eigen's divide and conquer.
#include "core/analysis/linear_algebra/singular_values.h"

#include <algorithm>
#include <limits>

#include "core/analysis/linear_algebra/decompositions.h"

namespace afterglow {

std::vector<double> singular_values(std::span<const double> A, int rows, int columns) {
  using RowMajor = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  if (rows <= 0 || columns <= 0 || A.size() != static_cast<std::size_t>(rows) * columns) return {};
  const Eigen::Map<const RowMajor> matrix(A.data(), rows, columns);
  if (!matrix.allFinite()) return {};
  // Those of zeros are zeros; divide and conquer may answer with the smallest number there is.
  if (matrix.isZero(0)) return std::vector<double>(static_cast<std::size_t>(std::min(rows, columns)), 0.0);
  const Eigen::VectorXd values = singular_values_of(Eigen::MatrixXd(matrix));
  return {values.begin(), values.end()};
}

double spectral_norm(std::span<const double> A, int rows, int columns) {
  if (A.empty() && (rows == 0 || columns == 0)) return 0.0;
  const std::vector<double> values = singular_values(A, rows, columns);
  return values.empty() ? std::numeric_limits<double>::quiet_NaN() : values.front();
}

int numerical_rank(std::span<const double> singular_values, double relative) {
  if (singular_values.empty()) return 0;
  const double smallest = relative * singular_values.front();
  return static_cast<int>(
      std::count_if(singular_values.begin(), singular_values.end(), [&](double value) { return value > smallest; }));
}

}  // namespace afterglow
