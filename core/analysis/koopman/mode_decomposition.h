// Modes of a Koopman operator: eigenvalues, the share of a query's energy in each, and which mode is which over time.
#pragma once
#include <complex>
#include <span>
#include <vector>

namespace afterglow {

struct ModeDecomposition {
  std::vector<std::complex<double>> eigenvalues;  ///< modulus descending, then angle ascending
  std::vector<double> energy;                     ///< |c_i|^2 / sum |c|^2 for w = sum c_i v_i, unit eigenvectors v_i
};

/// Eigenvalues of A [r*r] row-major (Echo eq. 6: the whitened operator A_w) and the energy of the whitened query w [r]
/// in each mode; an empty w gives equal shares. Non-finite input gives an empty result.
ModeDecomposition decompose_modes(std::span<const double> A, int r, std::span<const double> w);

/// The modes of one head at one moment, each eigenvalue with its number: 0 .. r - 1, each once, so that both members of
/// a conjugate pair have their own.
struct NumberedModes {
  std::vector<std::complex<double>> eigenvalues;
  std::vector<int> numbers;  ///< as long as `eigenvalues`
};

/// The numbers of the eigenvalues `now`: each takes that of the nearest one of `before`, nearest pairs first. Without
/// any before they are numbered in their order, which is by modulus where they come from `decompose_modes`.
std::vector<int> track_modes(const NumberedModes& before, const std::vector<std::complex<double>>& now);

/// Solves L x = b for a lower triangular L [r*r], row-major: whitens a query.
std::vector<double> solve_lower(std::span<const double> L, int r, std::span<const double> b);

}  // namespace afterglow
