// What noise in the statistics does to the Koopman operator and its eigenvalues, compared with the bounds of Echo
// appendix C.
#pragma once
#include <complex>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/analysis/koopman/ska_head.h"

namespace afterglow {

/// The operator A = M G~^-1 against A^ = (M + E_M)(G~ + E_G)^-1, G~ = G + eps I. All norms are spectral.
struct Perturbation {
  double noise_G = 0.0, noise_M = 0.0;  ///< |E_G|, |E_M|
  bool positive_definite = true;        ///< of G~ + E_G; if not, the layer's factorisation would need help

  double operator_change = 0.0;  ///< |A^ - A|
  /// Theorem C.1: |E_M| / s^ + |A| |G~| |G~^-1| |E_G| / s^, s^ the smallest singular value of G~ + E_G.
  double operator_bound = 0.0;
  /// (|E_M| + |A| |E_G|) / s^. The proof of C.1 splits M G~^-1 into |A| |G~| |G~^-1|, though it is A itself, and so
  /// loses a factor kappa(G~); this is the same theorem without the loss.
  double sharp_operator_bound = 0.0;

  double eigenvector_condition = 1.0;  ///< kappa(V) of A_w, columns of unit length; infinite when V is singular
  double eigenvalue_change = 0.0;      ///< largest distance of an eigenvalue of A^ to the nearest one of A
  /// Theorem C.3, in whitened coordinates: kappa(V) |L^-1 (A^ - A) L| with the measured change.
  double bauer_fike = 0.0;
  /// Corollary C.4 as printed: kappa(V) times the bound of C.1. It joins V of A_w to the norm of a change of A, two
  /// different coordinates, so the paper's proof does not cover it; a search by hill climbing found no violation.
  double combined_bound = 0.0;
  /// kappa(V) (|E_M| + rho |E_G|) / lambda_min(G~), rho the spectral radius of A^. Proof: an eigenvalue l of A^ solves
  /// det(M + E_M - l (G~ + E_G)) = 0, so it is one of A_w + L^-1 (E_M - l E_G) L^-T; then Bauer-Fike. Covered, and
  /// without the factor kappa(G~) of C.4.
  double pencil_bound = 0.0;
  std::vector<std::complex<double>> eigenvalues;  ///< of A^: modulus descending, then angle ascending
};

/// What is added to the statistics, [r*r] each; G should be symmetric.
struct StatisticsNoise {
  std::vector<double> G, M;
};
/// One measurement for each noise; nothing where the head is unsound (ska_operators), a size is wrong, a number is not
/// finite or G~ + E_G is singular.
std::vector<std::optional<Perturbation>> measure_perturbations(const SkaHead& head,
                                                               std::span<const StatisticsNoise> noises);

struct NoisePoint {
  double size = 0.0;  ///< |E_G| / |G| = |E_M| / |M|
  int draw = 0;
  Perturbation measured;
};

/// Seeded Gaussian noise of each relative size, `draws` times; E_G is symmetric. A draw is the same direction at every
/// size, so a curve over the sizes is smooth. Points where measure_perturbations answers nothing are left out.
std::vector<NoisePoint> noise_sweep(const SkaHead& head, std::span<const double> sizes, int draws, std::uint64_t seed);

}  // namespace afterglow
