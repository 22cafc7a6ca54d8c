// The only file that instantiates Eigen's eigenvalue solvers.
#include <Eigen/Eigenvalues>

#include "core/analysis/linear_algebra/decompositions.h"

namespace afterglow {

namespace {

using SymmetricSolver = Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd>;

SymmetricEigenpairs found_by(const SymmetricSolver& solver) {
  if (solver.info() != Eigen::Success) return {};
  return {solver.eigenvalues(), solver.eigenvectors()};
}

}  // namespace

Eigenpairs eigenpairs(const Eigen::MatrixXd& A) {
  const Eigen::EigenSolver<Eigen::MatrixXd> solver(A, true);
  if (solver.info() != Eigen::Success) return {};
  return {solver.eigenvalues(), solver.eigenvectors()};
}

Eigen::VectorXcd general_eigenvalues(const Eigen::MatrixXd& A) {
  const Eigen::EigenSolver<Eigen::MatrixXd> solver(A, false);
  if (solver.info() != Eigen::Success) return {};
  return solver.eigenvalues();
}

SymmetricEigenpairs symmetric_eigenpairs(const Eigen::MatrixXd& S) { return found_by(SymmetricSolver(S)); }

Eigen::VectorXd symmetric_eigenvalues(const Eigen::MatrixXd& S) {
  const SymmetricSolver solver(S, Eigen::EigenvaluesOnly);
  if (solver.info() != Eigen::Success) return {};
  return solver.eigenvalues();
}

SymmetricEigenpairs tridiagonal_eigenpairs(const Eigen::VectorXd& diagonal, const Eigen::VectorXd& off_diagonal) {
  SymmetricSolver solver;
  solver.computeFromTridiagonal(diagonal, off_diagonal);
  return found_by(solver);
}

}  // namespace afterglow
