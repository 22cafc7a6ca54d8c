// Dense matrices whose rows lie one after the other, as lists of numbers hold them, and Eigen's dense decompositions in
// float64, compiled once: their templates cost a file that includes them up to a minute.
#pragma once
#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "core/analysis/linear_algebra/spectrum.h"

namespace afterglow {

using RowMajor = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using RowMajorView = Eigen::Map<const RowMajor>;

inline RowMajor matrix_of(const std::vector<double>& numbers, std::int64_t rows, std::int64_t columns) {
  return RowMajorView(numbers.data(), rows, columns);
}
inline std::vector<double> stored(const RowMajor& matrix) { return {matrix.data(), matrix.data() + matrix.size()}; }

inline std::span<const double> numbers_of(const RowMajor& A) { return {A.data(), static_cast<std::size_t>(A.size())}; }
inline double spectral_norm(const RowMajor& A) {
  return spectral_norm(numbers_of(A), static_cast<int>(A.rows()), static_cast<int>(A.cols()));
}

inline bool all_finite(std::span<const double> values) {
  return std::ranges::all_of(values, [](double value) { return std::isfinite(value); });
}

/// Eigenvalues in the order of the solver, with eigenvectors of length 1 in the columns; both empty when the iteration
/// does not converge.
struct Eigenpairs {
  Eigen::VectorXcd values;
  Eigen::MatrixXcd vectors;
};
/// A [n, n], finite.
Eigenpairs eigenpairs(const Eigen::MatrixXd& A);
/// The values alone.
Eigen::VectorXcd general_eigenvalues(const Eigen::MatrixXd& A);

/// Eigenvalues in rising order, with orthonormal eigenvectors in the columns; both empty when the iteration does not
/// converge.
struct SymmetricEigenpairs {
  Eigen::VectorXd values;
  Eigen::MatrixXd vectors;
};
/// S [n, n], finite; only its lower triangle is read.
SymmetricEigenpairs symmetric_eigenpairs(const Eigen::MatrixXd& S);
/// The values alone.
Eigen::VectorXd symmetric_eigenvalues(const Eigen::MatrixXd& S);
/// Of the symmetric tridiagonal matrix with this diagonal [n] and this off-diagonal [n - 1].
SymmetricEigenpairs tridiagonal_eigenpairs(const Eigen::VectorXd& diagonal, const Eigen::VectorXd& off_diagonal);

/// Descending; a complex A is square.
Eigen::VectorXd singular_values_of(const Eigen::MatrixXd& A);
Eigen::VectorXd singular_values_of(const Eigen::MatrixXcd& A);

/// x of A x = b by elimination with row exchanges, for well conditioned A [n, n].
Eigen::VectorXcd solve(const Eigen::MatrixXcd& A, const Eigen::VectorXcd& b);
/// With row and column exchanges, for A that may be nearly singular.
Eigen::VectorXcd solve_with_full_pivoting(const Eigen::MatrixXcd& A, const Eigen::VectorXcd& b);
Eigen::MatrixXd solve_with_full_pivoting(const Eigen::MatrixXd& A, const Eigen::MatrixXd& B);
/// By elimination with row exchanges; not finite for singular A.
Eigen::MatrixXcd inverse(const Eigen::MatrixXcd& A);

}  // namespace afterglow
