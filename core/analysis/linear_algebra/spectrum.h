// Eigenvalues, singular values, spectral norm and numerical rank of dense matrices; always in float64.
#pragma once
#include <complex>
#include <span>
#include <vector>

namespace afterglow {

/// The order in which eigenvalues are listed: modulus descending, then angle ascending. Moduli within rounding count as
/// equal, so that a conjugate pair is never reordered.
bool comes_before(const std::complex<double>& a, const std::complex<double>& b);

/// Eigenvalues of A [n*n], row-major, in that order; empty when A is not finite or the iteration does not converge.
std::vector<std::complex<double>> eigenvalues(std::span<const double> A, int n);

/// Writes the eigenvalues of `matrix` [n*n] in any order; false when it cannot. A matrix and its transpose have the
/// same, so the order of its entries does not matter.
using GeneralEigenSolver = bool (*)(int n, const double* matrix, std::complex<double>* values);
/// From this size on a registered solver is asked first; below, the processor is faster (gpu/README.md).
inline constexpr int large_general = 256;
/// The program registers the GPU's solver at start where there is one; nullptr takes it away again.
void register_general_eigen_solver(GeneralEigenSolver solver);

/// Eigenvalues of a symmetric S [n*n], descending; only its lower triangle is read. Empty when S is not finite or has
/// another size, n is 0 or the iteration does not converge.
std::vector<double> symmetric_spectrum(std::span<const double> S, int n);

/// Smallest and largest eigenvalue of a symmetric matrix; both NaN when it is not finite.
struct SymmetricRange {
  double smallest, largest;
};
/// S [n*n]; only its lower triangle is read.
SymmetricRange symmetric_range(std::span<const double> S, int n);

/// Singular values of A [rows*columns], row-major, descending. Empty when a side is 0, the span has another size or A
/// is not finite.
std::vector<double> singular_values(std::span<const double> A, int rows, int columns);

/// Largest singular value; 0 when a side is 0, NaN when A is not finite or the span has another size.
double spectral_norm(std::span<const double> A, int rows, int columns);

/// How many of the descending singular values exceed `relative` times the largest.
int numerical_rank(std::span<const double> singular_values, double relative = 1e-12);

}  // namespace afterglow
