// Closed forms with the numbers of a measured routing.
#include "core/engine/influence_theory.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/analysis/influence.h"

namespace afterglow {

double InfluenceTheory::at(double lag) const {
  if (law == TheoryLaw::uniform_feedback) return uniform_routing_influence(parameter, source, lag);
  if (law == TheoryLaw::decaying_state) return std::exp(-parameter * lag);
  return law == TheoryLaw::diffuse_attention ? 1 / (source + lag + 1) : std::nan("");
}

InfluenceTheory theory_of(const RoutingView& routing, std::span<const int> sources) {
  InfluenceTheory theory;
  const double sum = std::accumulate(sources.begin(), sources.end(), 0.0);
  theory.source = sources.empty() ? 0 : sum / static_cast<double>(sources.size());
  if (!routing.gain.empty()) {
    theory.law = TheoryLaw::uniform_feedback;
    theory.parameter = mean_gain(routing);
  } else if (routing.mean_rate > 0) {
    theory.law = TheoryLaw::decaying_state;
    theory.parameter = routing.mean_rate;
  } else if (!routing.effective.empty()) {
    theory.law = TheoryLaw::diffuse_attention;
  }
  return theory;
}

std::vector<double> uniform_code(double gamma, int tokens) {
  std::vector<double> code;
  for (int t = 0; t < tokens; ++t) code.push_back(uniform_position_code(gamma, t));
  return code;
}

double mean_gain(const RoutingView& routing) {
  const double sum = std::accumulate(routing.gain.begin(), routing.gain.end(), 0.0);
  return routing.gain.empty() ? 0 : sum / static_cast<double>(routing.gain.size());
}

DeepProfile deep_profile(int blocks, double beta, int tokens) {
  DeepProfile deep;
  const InfluenceProfile profile = spread_profile(uniform_stack_profile(blocks, 1 - beta, 0, tokens), 12);
  for (std::size_t i = 0; i < profile.lags.size(); ++i) {
    if (profile.lags[i] < blocks) continue;
    deep.lags.push_back(profile.lags[i]);
    deep.values.push_back(profile.values[i]);
  }
  deep.measured = fit_influence(deep.lags, deep.values, 1e4).power.slope;
  deep.theory = deep_exponent(blocks, beta);
  return deep;
}

}  // namespace afterglow
