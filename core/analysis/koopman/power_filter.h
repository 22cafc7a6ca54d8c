// What the power filter A^K does to the modes of a live operator: suppression, contraction, its price and its use
// (Echo appendix D, I.10 to I.12).
#pragma once
#include <complex>
#include <optional>
#include <span>
#include <vector>

#include "core/analysis/koopman/ska_head.h"

namespace afterglow {

/// |lambda|^K for each mode: by these factors Echo's table D.1 suppresses amplitudes; all 1 for K = 0. Empty for K < 0.
/// Remark 3 of the paper calls 0.7^2 = 49 % of a mode's energy, but its energy is multiplied by 0.7^4 = 24 %.
std::vector<double> power_gains(std::span<const std::complex<double>> eigenvalues, int power);

/// Propositions D.2 and D.3 for K = 0, 1, ... With A^ = A_w / max(sigma, 1) the paper has |A^^K| <= 1 and, after gamma,
/// |A^K| <= gamma^K. That needs the exact sigma; a layer divides by an estimate from below, so its A^ may exceed 1 by
/// the estimate's error. `bounds` hold in any case.
struct Contractivity {
  double sigma = 0.0;                ///< exact |A_w|
  double normaliser = 1.0;           ///< max(the layer's estimate or sigma, 1)
  double normalised_norm = 0.0;      ///< |A^| = sigma / normaliser
  bool contractive = true;           ///< |A^| <= 1 up to rounding
  std::vector<double> norms;         ///< |A^^K|
  std::vector<double> restored;      ///< |A^K| = gamma^K |A^^K|
  std::vector<double> paper_bounds;  ///< gamma^K
  std::vector<double> bounds;        ///< (gamma |A^|)^K
};
/// Nothing when the head is unsound (ska_operators) or max_power < 0.
std::optional<Contractivity> contractivity(const SkaHead& head, int max_power);

/// Proposition I.10: how much the ridge loss sum |v - B k|^2 + eps |B|^2 grows when the optimal B* = C G~^-1 is
/// followed by the filter. With F = C L^-T the excess |B* (Phi_K - I) G~^(1/2)|_F^2 is |F (A^K - I)|_F^2: no square
/// root needed.
struct ExcessRisk {
  double explained = 0.0;      ///< |F|_F^2, what B* takes off sum |v|^2: an excess of this size undoes the regression
  std::vector<double> excess;  ///< for K = 0, 1, ...; the first is 0
  std::vector<double> with_gain;  ///< |F (eta A^K - I)|_F^2: the same for the layer's output, which eta multiplies
};
/// Nothing when the head is unsound or max_power < 0.
std::optional<ExcessRisk> excess_risk(const SkaHead& head, int max_power);

/// Theorem I.11 and corollary I.12: the whitened query is split into its part in modes near 1 (persistent) and the rest
/// (transient); the wish is y = eta C L^-T q_pers. The theorem assumes a normal A. A live one seldom is, so the parts
/// are those of the spectral (oblique) decomposition and both terms carry kappa(V), which is 1 for a normal A: then
/// bound and condition are the paper's.
struct PersistentRegime {
  int persistent = 0, transient = 0;                   ///< modes
  double delta = 0.0;                                  ///< largest |1 - lambda| of the persistent modes
  double rho = 0.0;                                    ///< largest |lambda| of the transient modes
  double eigenvector_condition = 1.0;                  ///< kappa(V) of A
  double persistent_norm = 0.0, transient_norm = 0.0;  ///< |q_pers|, |q_trans|
  double bound = 0.0;                                  ///< of |y / eta - C L^-T q_pers|, I.11
  double bound_without_filter = 0.0;                   ///< the same for K = 0: |C L^-T| |q_trans|
  double error = 0.0, error_without_filter = 0.0;      ///< what they bound, measured
  bool applies = false;                                ///< rho < 1, as the theorem asks
  bool helps_by_bound = false;                         ///< I.12: bound < bound_without_filter, and it applies
  bool helps = false;                                  ///< error < error_without_filter
};
/// A mode is persistent when |1 - lambda| <= distance, lambda an eigenvalue of A (gamma included). Mind that a slowly
/// fading but rotating mode is far from 1: the filter turns it. `query` [r] is divided by the key scale m, not
/// whitened. Nothing when the head is unsound, the query has another size or is not finite, or A has no full set of
/// eigenvectors.
std::optional<PersistentRegime> persistent_regime(const SkaHead& head, std::span<const double> query, double distance);

/// A distance for persistent_regime that the spectrum itself suggests: the middle of the widest gap between successive
/// |1 - lambda| above which all moduli are below 1. Infinite if no such distance exists; then every mode counts as
/// persistent.
double widest_gap(std::span<const std::complex<double>> eigenvalues);

}  // namespace afterglow
