// The numbers of modes and of Gram matrices for panels, cards and files, each computed in one function.
#pragma once
#include <complex>
#include <span>
#include <vector>

#include "core/analysis/koopman/mode_decomposition.h"
#include "core/engine/observation/observation.h"

namespace afterglow {

/// The head of these spectra; nullptr if it is missing.
const HeadSpectrum* find_head(const Spectra* spectra, int layer, int head);
/// Its eigenvalues with their numbers; empty if it is missing.
NumberedModes numbered_modes(const Spectra* spectra, int layer, int head);

/// Gain |λ|^K of the power filter for moduli |λ| >= 0 (Echo, appendix D.1). Empty for K < 0.
std::vector<double> filter_gains(std::span<const double> moduli, int power);

/// Gain |scale λ|^K of one mode of the head, an index into its eigenvalues; NaN for K < 0.
double mode_gain(const HeadSpectrum& head, std::size_t mode, int power);

/// How long a mode lasts and how fast it turns, in tokens.
struct ModeTimes {
  double modulus = 0;    ///< |λ|
  double angle = 0;      ///< |arg λ|, radians a token
  double half_life = 0;  ///< ln ½ / ln |λ|; 0 for λ = 0, infinite if the mode does not decay
  double period = 0;     ///< 2π / angle; infinite for a positive real λ, which does not rotate
};
ModeTimes mode_times(const std::complex<double>& lambda);

// Eigenvalues of a Gram matrix G = sum z z^T.

/// Proposition A.2: sigma_j / (sigma_j + ridge) for each eigenvalue of G [r], in their order: the factor that ridge
/// regression applies along that eigenvector, near 1 for frequent directions of the keys, 0 for absent ones. Negative
/// eigenvalues (rounding) count as 0. NaN if both are 0 or one is not finite.
std::vector<double> ridge_shrinkage(std::span<const double> gram, double ridge);

/// The three sizes of proposition E.1, each at most T for T keys of length at most 1 (eq. 51).
struct GramSize {
  double trace = 0.0;      ///< tr G = sum |z_t|^2
  double frobenius = 0.0;  ///< |G|_F
  double largest = 0.0;    ///< lambda_max(G); largest <= frobenius <= trace
};
/// From the eigenvalues of G [r]; all 0 without any.
GramSize gram_size(std::span<const double> gram);

}  // namespace afterglow
