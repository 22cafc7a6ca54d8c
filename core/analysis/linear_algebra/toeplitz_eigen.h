// Largest eigenpairs of symmetric Toeplitz matrices, whose element (i, j) depends on |i - j| alone: what a kernel over
// equally spaced times gives. In float64; a matrix of n rows is never formed.
#pragma once
#include <span>
#include <vector>

namespace afterglow {

/// By falling eigenvalue.
struct ToeplitzPairs {
  std::vector<double> values;   ///< [count]
  std::vector<double> vectors;  ///< [count, n], orthonormal, one after the other
};

/// Of e^(-rate |i - j|), the matrix of Kac, Murdock and Szego, n > 0 rows, rate > 0, count <= n. In closed form up to
/// one root a pair: O(n count).
ToeplitzPairs exponential_pairs(double rate, int n, int count);

/// One mode of strategy B's exponential kernel as the grid of T rows over a time of τ grows finer (Spectral Memory,
/// eqs. 27 to 30).
struct KlLimit {
  int mode = 1;                   ///< from 1, by falling eigenvalue
  std::vector<double> rows;       ///< T
  std::vector<double> weighted;   ///< of τ/(T - 1) e^(-|t_i - t_j|/τ), t_i = τ i/(T - 1) (eq. 27)
  std::vector<double> shrinking;  ///< of τ/(T - 1) e^(-|i - j|/τ): eq. 30, whose length scale shrinks with the grid
  double continuous = 0;          ///< of the operator itself, the limit of `weighted` (eq. 29)
};
/// For the first `count` modes; every number of rows is at least `count` and above 1.
std::vector<KlLimit> kl_limits(double tau, int count, std::span<const int> rows);

/// Of the matrix with this first column (not empty, finite), count <= its length: Lanczos with full
/// reorthogonalisation, on even and odd vectors apart, products by Fourier transforms. Residuals are at most 1e-13 of
/// the largest eigenvalue; the steps taken grow as the wanted eigenvalues crowd together.
ToeplitzPairs toeplitz_pairs(std::span<const double> first_column, int count);

}  // namespace afterglow
