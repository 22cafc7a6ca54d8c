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
