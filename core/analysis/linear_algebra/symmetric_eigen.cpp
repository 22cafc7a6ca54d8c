// Symmetric eigenproblems: Eigen's solver, and the registered one for large matrices.
#include "core/analysis/linear_algebra/symmetric_eigen.h"

#include <algorithm>
#include <atomic>
#include <cmath>

#include "core/analysis/linear_algebra/decompositions.h"

namespace afterglow {
namespace {

std::atomic<SymmetricEigenSolver> large_solver = nullptr;

bool solved_elsewhere(std::span<const double> S, int n, SymmetricEigen& result) {
  const SymmetricEigenSolver solver = n >= large_symmetric ? large_solver.load() : nullptr;
  if (solver == nullptr) return false;
  result.values.resize(static_cast<std::size_t>(n));
  result.vectors.assign(S.begin(), S.end());
  return solver(n, result.vectors.data(), result.values.data());
}

}  // namespace

void register_symmetric_eigen_solver(SymmetricEigenSolver solver) { large_solver = solver; }

SymmetricEigen symmetric_eigen(std::span<const double> S, int n) {
  SymmetricEigen result;
  if (n == 0 || !std::ranges::all_of(S, [](double value) { return std::isfinite(value); })) return result;
  if (solved_elsewhere(S, n, result)) return result;
  // A symmetric matrix reads the same by rows and by columns; the lower triangle by rows is the upper one by columns.
  const Eigen::Map<const Eigen::MatrixXd> matrix(S.data(), n, n);
  const SymmetricEigenpairs pairs = symmetric_eigenpairs(matrix.transpose());
  result.values.assign(pairs.values.begin(), pairs.values.end());
  result.vectors.assign(pairs.vectors.data(), pairs.vectors.data() + pairs.vectors.size());
  return result;
}

}  // namespace afterglow
