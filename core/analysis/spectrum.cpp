// Eigenvalues and singular values by Eigen's dense solvers.
#include "core/analysis/spectrum.h"

#include <Eigen/Eigenvalues>
#include <Eigen/SVD>
#include <algorithm>
#include <cmath>
#include <limits>

namespace afterglow {

namespace {

using RowMajor = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

}  // namespace

bool comes_before(const std::complex<double>& a, const std::complex<double>& b) {
  const double difference = std::abs(a) - std::abs(b);
  if (std::abs(difference) > 1e-9 * (1.0 + std::abs(a))) return difference > 0;
  return std::arg(a) < std::arg(b);
}

std::vector<std::complex<double>> eigenvalues(std::span<const double> A, int n) {
  const Eigen::Map<const RowMajor> matrix(A.data(), n, n);
  if (n == 0 || !matrix.allFinite()) return {};
  const Eigen::EigenSolver<Eigen::MatrixXd> solver(matrix, false);
  if (solver.info() != Eigen::Success) return {};
  std::vector<std::complex<double>> result(solver.eigenvalues().begin(), solver.eigenvalues().end());
  std::stable_sort(result.begin(), result.end(), comes_before);
  return result;
}

SymmetricRange symmetric_range(std::span<const double> S, int n) {
  const Eigen::Map<const RowMajor> matrix(S.data(), n, n);
  if (n == 0 || !matrix.allFinite()) return {not_a_number, not_a_number};
  const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> solver(matrix, Eigen::EigenvaluesOnly);
  return {solver.eigenvalues()[0], solver.eigenvalues()[n - 1]};
}

double condition_number(std::span<const double> A, int n) {
  const Eigen::Map<const RowMajor> matrix(A.data(), n, n);
  if (n == 0 || !matrix.allFinite()) return not_a_number;
  const Eigen::BDCSVD<Eigen::MatrixXd> svd{Eigen::MatrixXd(matrix)};
  return svd.singularValues()[0] / svd.singularValues()[n - 1];
}

}  // namespace afterglow
