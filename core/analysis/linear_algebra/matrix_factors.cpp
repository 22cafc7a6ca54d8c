// The only file that instantiates Eigen's singular values and LU factors in float64.
#include <Eigen/LU>
#include <Eigen/SVD>

#include "core/analysis/linear_algebra/decompositions.h"

namespace afterglow {

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
