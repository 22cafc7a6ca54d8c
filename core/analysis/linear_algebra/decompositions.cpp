// The only file that instantiates Eigen's eigenvalue solvers, singular values and LU factors in float64.
#include "core/analysis/linear_algebra/decompositions.h"

#include <Eigen/Eigenvalues>
#include <Eigen/LU>
#include <Eigen/SVD>

// Singular values alone are asked for; the code that updates and copies singular vectors takes a tenth of this file's
// compile time.
namespace Eigen {

template <>
template <class HouseholderU, class HouseholderV, class NaiveU, class NaiveV>
void BDCSVD<MatrixXd>::copyUV(const HouseholderU&, const HouseholderV&, const NaiveU&, const NaiveV&) {}

template <>
void BDCSVD<MatrixXd>::structured_update(Block<MatrixXr, Dynamic, Dynamic>, const MatrixXr&, Index) {}

}  // namespace Eigen

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

Eigen::VectorXd singular_values_of(const Eigen::MatrixXd& A) {
  return Eigen::BDCSVD<Eigen::MatrixXd>(A).singularValues();
}

Eigen::VectorXd singular_values_of(const Eigen::MatrixXcd& A) {
  return Eigen::JacobiSVD<Eigen::MatrixXcd, Eigen::NoQRPreconditioner>(A).singularValues();
}

Eigen::VectorXcd solve(const Eigen::MatrixXcd& A, const Eigen::VectorXcd& b) { return A.partialPivLu().solve(b); }

Eigen::VectorXcd solve_with_full_pivoting(const Eigen::MatrixXcd& A, const Eigen::VectorXcd& b) {
  return A.fullPivLu().solve(b);
}

Eigen::MatrixXd solve_with_full_pivoting(const Eigen::MatrixXd& A, const Eigen::MatrixXd& B) {
  return A.fullPivLu().solve(B);
}

Eigen::MatrixXcd inverse(const Eigen::MatrixXcd& A) { return A.partialPivLu().inverse(); }

}  // namespace afterglow
