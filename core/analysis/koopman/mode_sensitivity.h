// How the eigenvalues of a matrix follow a small change of it.
#pragma once
#include <complex>
#include <span>
#include <vector>

namespace afterglow {

/// One eigenvalue with its eigenvectors: A v = lambda v, u^H A = lambda u^H.
struct ModeSensitivity {
  std::complex<double> value;
  /// |u| |v| / |u^H v|: how much further than its own norm a change of A may move the eigenvalue; 1 for a normal
  /// matrix, infinite for a defective eigenvalue, whose eigenvectors have fallen together.
  double condition = 1;
  std::vector<std::complex<double>> left;   ///< u^H, scaled so that u^H v = 1
  std::vector<std::complex<double>> right;  ///< v, of length 1
};

/// Beyond it an eigenvalue counts as defective: what rounds off in float64 moves it visibly.
inline constexpr double defective_condition = 1e6;

/// Of A [r*r], row-major, in the order of `comes_before`; empty when A is not finite or the iteration does not
/// converge.
std::vector<ModeSensitivity> mode_sensitivities(std::span<const double> A, int r);

/// delta lambda = u^H dA v / (u^H v), to first order; dA [r*r].
std::complex<double> first_order_move(const ModeSensitivity& mode, std::span<const double> dA);

/// Whether the first order describes this change of A for mode `i`: the second order,
/// sum over j of (u_i^H dA v_j)(u_j^H dA v_i) / (lambda_i - lambda_j), is at most half as large, and the eigenvalue is
/// not defective.
bool first_order_holds(std::span<const ModeSensitivity> modes, std::size_t i, std::span<const double> dA);

/// For each expected value the index of the one that is meant, nearest pairs first; -1 where none is left.
std::vector<int> nearest_of_each(std::span<const std::complex<double>> expected,
                                 std::span<const std::complex<double>> values);

}  // namespace afterglow
