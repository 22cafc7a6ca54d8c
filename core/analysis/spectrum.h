// Numbers by which a matrix is judged: eigenvalues, extreme eigenvalues, condition number; always in float64.
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

/// Smallest and largest eigenvalue of a symmetric matrix; both NaN when it is not finite.
struct SymmetricRange {
  double smallest, largest;
};
/// S [n*n]; only its lower triangle is read.
SymmetricRange symmetric_range(std::span<const double> S, int n);

/// Largest over smallest singular value of A [n*n]; infinite for a singular matrix, NaN when A is not finite.
double condition_number(std::span<const double> A, int n);

}  // namespace afterglow
