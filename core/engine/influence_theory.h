// Theory beside what was measured, as plain numbers for figures (Sessa, section 4.2).
#pragma once
#include <span>
#include <vector>

#include "core/engine/influence_view.h"

namespace afterglow {

/// What theory says of a mixer with this routing.
enum class TheoryLaw {
  none,
  uniform_feedback,  ///< closed form of uniform routing; parameter: the mean gain gamma
  decaying_state,    ///< exp(-rate lag); parameter: the mean rate
  diffuse_attention  ///< 1 / (source + lag + 1); no parameter
};
struct InfluenceTheory {
  TheoryLaw law = TheoryLaw::none;
  double parameter = 0;
  double source = 0;  ///< tau
  /// At a lag >= 1, in a unit of its own: only ratios mean something beside a measured tail.
  double at(double lag) const;
};
InfluenceTheory theory_of(const RoutingView& routing, std::span<const int> sources);

/// The position code of uniform routing with constant gain (corollary I.8), tokens 0 .. tokens - 1; |gamma| < 1.
std::vector<double> uniform_code(double gamma, int tokens);
double mean_gain(const RoutingView& routing);

/// An impulse at token 0 through k blocks of uniform routing (theorem 12), from the first lag that k blocks reach.
struct DeepProfile {
  std::vector<double> lags, values;
  double measured = 0;  ///< exponent fitted from lag 10,000 on
  double theory = 0;    ///< k (1 - beta) - 1
};
DeepProfile deep_profile(int blocks, double beta, int tokens);

}  // namespace afterglow
