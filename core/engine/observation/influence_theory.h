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
  feedback_envelope,  ///< lag^-beta (theorem 8); parameter: beta = 1 - gamma_max c2 > 0
  decaying_state,     ///< exp(-rate lag); parameter: the mean rate
  diffuse_attention,  ///< 1 / (source + lag + 1); no parameter
  deep_feedback       ///< lag^(k (1 - beta) - 1) of k stacked blocks (theorem 12); parameter: the exponent
};
struct InfluenceTheory {
  TheoryLaw law = TheoryLaw::none;
  double parameter = 0;
  double source = 0;  ///< tau
  int blocks = 1;     ///< k
  /// At a lag >= 1, in a unit of its own: only ratios mean something beside a measured tail.
  double at(double lag) const;
};
InfluenceTheory theory_of(const RoutingView& routing, std::span<const int> sources);
/// The envelope that this routing keeps to; law none without a feedback, and where gamma_max c2 >= 1 leaves none.
InfluenceTheory envelope_of(const RoutingView& routing);
/// Of the k blocks with feedback among these, as if their routing were uniform and the mean of their gains 1 - beta;
/// law none for k < 2 or a mean gain that is not positive.
InfluenceTheory deep_theory_of(std::span<const RoutingView> routing);
/// "decaying", "frozen" or "increasing": what a power law of this exponent does over the lag (corollary 4.8).
std::string_view regime_name(double exponent);

/// The position code of uniform routing with constant gain (corollary I.8), tokens 0 .. tokens - 1; |gamma| < 1.
std::vector<double> uniform_code(double gamma, int tokens);
double mean_gain(const RoutingView& routing);

}  // namespace afterglow
