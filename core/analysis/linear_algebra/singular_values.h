// Singular values, spectral norm and numerical rank of dense matrices; always in float64.
#pragma once
#include <span>
#include <vector>

namespace afterglow {

/// Singular values of A [rows*columns], row-major, descending. Empty when a side is 0, the span has another size or A
/// is not finite.
std::vector<double> singular_values(std::span<const double> A, int rows, int columns);

/// Largest singular value; 0 when a side is 0, NaN when A is not finite or the span has another size.
double spectral_norm(std::span<const double> A, int rows, int columns);

/// How many of the descending singular values exceed `relative` times the largest.
int numerical_rank(std::span<const double> singular_values, double relative = 1e-12);

}  // namespace afterglow
