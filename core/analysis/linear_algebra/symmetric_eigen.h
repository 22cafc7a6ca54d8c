// Eigenvalues and eigenvectors of symmetric matrices in float64, by Eigen or, for large ones, by a solver that the
// program registers (the GPU's).
#pragma once
#include <span>
#include <vector>

namespace afterglow {

struct SymmetricEigen {
  std::vector<double> values;   ///< [n], ascending
  std::vector<double> vectors;  ///< [n*n]: entries i n .. i n + n - 1 are the unit eigenvector of values[i]
};

/// S [n*n] symmetric; only its lower triangle (row-major) is read. Both lists are empty when S is not finite or the
/// iteration does not converge.
SymmetricEigen symmetric_eigen(std::span<const double> S, int n);

/// Solves in place: `matrix` [n*n] is symmetric and receives the eigenvectors one after the other, `values` [n]
/// receives the eigenvalues, ascending. False when it cannot; the matrix is then lost.
using SymmetricEigenSolver = bool (*)(int n, double* matrix, double* values);
/// From this size on a registered solver is asked first.
inline constexpr int large_symmetric = 512;
/// The program registers the GPU's solver at start where there is one; nullptr takes it away again.
void register_symmetric_eigen_solver(SymmetricEigenSolver solver);

}  // namespace afterglow
