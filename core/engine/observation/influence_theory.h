// Theory beside what was measured, as plain numbers for figures (Sessa, section 4.2).
#pragma once
#include <span>
#include <string_view>
#include <vector>

#include "core/engine/observation/influence_view.h"

namespace afterglow {

/// What theory says of a mixer with this routing.
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
  std::vector<double> accumulated{};  ///< of freeze_envelope: the least Delta at each lag 0 .. T - 1
  std::vector<double> heights{};      ///< of the last four laws: what they promise at each lag, mean over the sources
  /// Whether `at` is a height that a tail of the routing held fixed may not exceed. Else only its ratios mean something
  /// beside a measured tail, whose constants nothing here measures.
  bool is_absolute = false;
  /// At a lag >= 1.
  double at(double lag) const;
};
InfluenceTheory theory_of(const RoutingView& routing, std::span<const int> sources);
/// The envelope that this routing keeps to; law none without a feedback, and where gamma_max c2 >= 1 leaves none.
InfluenceTheory envelope_of(const RoutingView& routing);
/// The least Delta(tau, tau + lag) of any head and source tau >= 1, at lags 0 .. T - 1: by what the memory fades at
/// least, whatever is asked (proposition 5); empty without a decaying state.
std::vector<double> least_accumulated(const RoutingView& routing);
/// The largest |C_t B_tau| of any head: its weights without their decay, as far as float32 still holds them.
double largest_factor(const RoutingView& routing);
/// What holds absolutely where the routing is fixed: theorem 8 of the resolvent, proposition 9 (i) of a softmax read
/// directly, (ii) of a state with time steps; law none of what has none of them.
InfluenceTheory fixed_envelope_of(const RoutingView& routing, std::span<const int> sources);

/// What holds absolutely of |dy_t/dx_tau| with all that the routing does, from the measured constants: theorem 23 with
/// corollary B.7, proposition 10 (i) of a softmax, 4 of a state with time steps; law none where the forcing is not
/// known.
InfluenceTheory end_to_end_envelope_of(const RoutingView& routing);

/// What theorem 23 asks of the forcing, measured: the largest constant of any source.
struct ForcingConstants {
  double dilution = 0;  ///< t |df_t/dx_tau| (assumption 21)
  double logits = 0;    ///< t sum_j alpha_tj |dlogit_tj/dx_tau| (assumption 22); 0 without a feedback
  double own = 0;       ///< at the source itself (assumptions 17, 19)
  /// By what factor both constants are larger over the whole sequence than over its first half; 1: they have settled.
  /// A constant that goes on growing with the sequence is none, so that its assumption fails.
  double dilution_growth = 1, logits_growth = 1;
};
ForcingConstants forcing_constants(const RoutingView& routing);
/// 21 or 22, the assumption whose constant still grows by more than half, the faster one; 0 where both have settled.
int failing_assumption(const ForcingConstants& constants);

/// What Sessa's theorems assume of a feedback and promise of its solve, measured on one sequence.
struct FeedbackBounds {
  double contraction = 0;    ///< rho = max |gamma_t|, below 1 (assumption 1)
  double mass = 0;           ///< gamma_max c2 = 1 - beta, below 1 (assumptions 6, 7)
  double amplification = 0;  ///< largest |s_t| for |f| <= 1, the largest row sum of |(I - B)^-1|
  double bound = 0;          ///< 1 / (1 - rho), what it may be (proposition 2); infinite where rho >= 1
  /// Largest |(I - B)^-1 [tau + lag, tau]| / (C lag^-beta), at most 1 by theorem 8, and its lag; NaN where mass >= 1.
  double envelope_share = 0;
  int envelope_lag = 0;
  double least_step = 0;  ///< smallest |s_t - s_{t-1}| of the position code (corollary 4.13): noise below half of it
                          ///< leaves every position apart from its neighbour, where the code rises or falls throughout
  bool is_ordered = false;  ///< whether it does
};
/// Of a routing with a feedback.
FeedbackBounds bounds_of(const RoutingView& routing);
/// max |y_t| / B(max |x_t|), at most 1 by Sessa's proposition 25; NaN where the block's reach is not known.
double reach_share(const RoutingView& routing);
/// The smallest mean of -log a_t over `length` tokens in a row, c of Delta(tau, t) >= c (t - tau) for lags of at least
/// that many tokens, whatever they are (proposition 5); NaN without a decaying state or for shorter sequences.
double slowest_rate(const RoutingView& routing, int length);

/// Of the k blocks with feedback among these, as if their routing were uniform and the mean of their gains 1 - beta;
/// law none for k < 2 or a mean gain that is not positive.
InfluenceTheory deep_theory_of(std::span<const RoutingView> routing);
/// "decaying", "frozen" or "increasing": what a power law of this exponent does over the lag (corollary 4.8).
std::string_view regime_name(double exponent);

/// The position code of uniform routing with constant gain (corollary I.8), tokens 0 .. tokens - 1; |gamma| < 1.
std::vector<double> uniform_code(double gamma, int tokens);
double mean_gain(const RoutingView& routing);
/// Share of positions that the nearest value of a code tells (corollary 4.13) when normal noise of this deviation is
/// added to it: exact, from the gaps between neighbouring values. Equal values are guessed.
double recovered_positions(std::span<const double> code, double deviation);

}  // namespace afterglow
