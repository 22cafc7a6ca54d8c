// Theory to compare with the measured influence, as plain numbers for figures (Sessa, section 4.2).
#pragma once
#include <span>
#include <string_view>
#include <vector>

#include "core/engine/analyses/influence/influence_view.h"

namespace afterglow {

/// What theory predicts for a mixer with this routing.
enum class TheoryLaw {
  none,
  uniform_feedback,   ///< closed form of uniform routing; parameter: the mean gain gamma
  feedback_envelope,  ///< C lag^-beta (theorem 8); parameter: beta = 1 - gamma_max c2 > 0
  decaying_state,     ///< exp(-rate lag); parameter: the mean rate
  diffuse_attention,  ///< 1 / (source + lag + 1); no parameter
  freeze_envelope,    ///< C exp(-Delta), the least Delta(tau, tau + lag) of any head (propositions 4, 5 and 9, ii)
  diffuse_envelope,   ///< c2 / (source + lag + 1) (proposition 9, i); parameter: c2
  deep_feedback,      ///< lag^(k (1 - beta) - 1) of k stacked blocks (theorem 12); parameter: the exponent
  forced_feedback,    ///< theorem 23 with its measured constants; parameter: beta
  forced_solve,       ///< the same with the measured solve where gamma_max c2 = parameter >= 1 leaves no envelope
  smooth_attention,   ///< C / (source + lag + 1) (proposition 10, i); parameter: C
  fading_state        ///< C exp(-Delta) end to end (propositions 4 and 10, ii); parameter: C
};
struct InfluenceTheory {
  TheoryLaw law = TheoryLaw::none;
  double parameter = 0;
  double source = 0;                  ///< tau
  int blocks = 1;                     ///< k
  std::vector<double> accumulated{};  ///< of freeze_envelope: the smallest Delta at each lag 0 .. T - 1
  std::vector<double> heights{};      ///< of the last four laws: predictions at each lag, mean over the sources
  /// Whether `at` bounds the height of a measured tail with fixed routing. Otherwise its constants are unknown and only
  /// the decay can be compared.
  bool is_absolute = false;
  /// At a lag >= 1.
  double at(double lag) const;
};
InfluenceTheory theory_of(const RoutingView& routing, std::span<const int> sources);
/// The envelope of this routing; law none without a feedback or if gamma_max c2 >= 1.
InfluenceTheory envelope_of(const RoutingView& routing);
/// The smallest Delta(tau, tau + lag) of any head and source tau >= 1, at lags 0 .. T - 1: a lower bound on the decay
/// of the memory for all inputs (proposition 5); empty without a decaying state.
std::vector<double> min_accumulated(const RoutingView& routing);
/// The largest |C_t B_tau| of any head: its weights without their decay, as far as float32 represents them.
double largest_factor(const RoutingView& routing);
/// Absolute bounds with fixed routing: theorem 8 for the resolvent, proposition 9 (i) for a softmax read directly, (ii)
/// for a state with time steps; law none for other routings.
InfluenceTheory fixed_envelope_of(const RoutingView& routing, std::span<const int> sources);

/// Absolute bounds on |dy_t/dx_tau| including changes of the routing, from measured constants: theorem 23 with
/// corollary B.7, proposition 10 (i) for a softmax, 4 for a state with time steps; law none if the forcing is unknown.
InfluenceTheory end_to_end_envelope_of(const RoutingView& routing);

/// Measured constants of the forcing in theorem 23: the largest of any source.
struct ForcingConstants {
  double dilution = 0;  ///< t |df_t/dx_tau| (assumption 21)
  double logits = 0;    ///< t sum_j alpha_tj |dlogit_tj/dx_tau| (assumption 22); 0 without a feedback
  double own = 0;       ///< at the source itself (assumptions 17, 19)
  /// Ratio of each constant over the whole sequence to that over its first half; 1: converged. If a constant grows with
  /// the sequence, its assumption fails.
  double dilution_growth = 1, logits_growth = 1;
};
ForcingConstants forcing_constants(const RoutingView& routing);
/// 21 or 22, the assumption whose constant still grows by more than half, the faster one; 0 if both have converged.
int failing_assumption(const ForcingConstants& constants);

/// Assumptions of Sessa's theorems about a feedback and bounds on its solve, measured on one sequence.
struct FeedbackBounds {
  double contraction = 0;    ///< rho = max |gamma_t|, below 1 (assumption 1)
  double mass = 0;           ///< gamma_max c2 = 1 - beta, below 1 (assumptions 6, 7)
  double amplification = 0;  ///< largest |s_t| for |f| <= 1, the largest row sum of |(I - B)^-1|
  double bound = 0;          ///< 1 / (1 - rho), its upper bound (proposition 2); infinite if rho >= 1
  /// Largest |(I - B)^-1 [tau + lag, tau]| / (C lag^-beta), at most 1 by theorem 8, and its lag; NaN if mass >= 1.
  double envelope_share = 0;
  int envelope_lag = 0;
  double least_step = 0;  ///< smallest |s_t - s_{t-1}| of the position code (corollary 4.13): if the code is monotone,
                          ///< noise below half of it leaves positions distinguishable
  bool is_ordered = false;  ///< whether the code is monotone
};
/// For a routing with a feedback.
FeedbackBounds bounds_of(const RoutingView& routing);
/// max |y_t| / B(max |x_t|), at most 1 by Sessa's proposition 25; NaN if the block's reach is unknown.
double reach_share(const RoutingView& routing);
/// The smallest mean of -log a_t over `length` consecutive tokens: c in Delta(tau, t) >= c (t - tau) for lags of at
/// least `length` (proposition 5); NaN without a decaying state or for shorter sequences.
double slowest_rate(const RoutingView& routing, int length);

/// For the k blocks with feedback among these, with uniform routing and 1 - beta as the mean of their gains; law none
/// if k < 2 or the mean is not positive.
InfluenceTheory deep_theory_of(std::span<const RoutingView> routing);
/// "decaying", "frozen" or "increasing": the behaviour of lag^exponent (corollary 4.8).
std::string_view regime_name(double exponent);

/// The position code of uniform routing with constant gain (corollary I.8), tokens 0 .. tokens - 1; |gamma| < 1.
std::vector<double> uniform_code(double gamma, int tokens);
double mean_gain(const RoutingView& routing);
/// Share of positions that a nearest-value decoder of the code recovers (corollary 4.13) under normal noise of this
/// deviation: exact, from the gaps between neighbouring values. Equal values are guessed.
double recovered_positions(std::span<const double> code, double deviation);

}  // namespace afterglow
