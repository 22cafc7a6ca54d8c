// Closed forms with the numbers of a measured routing.
#include "core/engine/observation/influence_theory.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/analysis/influence.h"

namespace afterglow {

double InfluenceTheory::at(double lag) const {
  if (law == TheoryLaw::uniform_feedback) return uniform_routing_influence(parameter, source, lag);
  if (law == TheoryLaw::decaying_state) return std::exp(-parameter * lag);
  if (law == TheoryLaw::feedback_envelope) return std::pow(lag, -parameter);
  if (law == TheoryLaw::deep_feedback) return std::pow(lag, parameter);
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

InfluenceTheory envelope_of(const RoutingView& routing) {
  InfluenceTheory theory;
  double gain = 0;
  for (const double g : routing.gain) gain = std::max(gain, std::abs(g));
  const double beta = envelope_exponent(gain, routing.c2);
  if (routing.gain.empty() || !(beta > 0)) return theory;
  theory.law = TheoryLaw::feedback_envelope;
  theory.parameter = beta;
  return theory;
}

InfluenceTheory deep_theory_of(std::span<const RoutingView> routing) {
  InfluenceTheory theory;
  double gain = 0;
  theory.blocks = 0;
  for (const RoutingView& view : routing) {
    if (view.gain.empty()) continue;
    ++theory.blocks;
    gain += mean_gain(view);
  }
  if (theory.blocks < 2 || !(gain > 0)) return theory;
  theory.law = TheoryLaw::deep_feedback;
  theory.parameter = deep_exponent(theory.blocks, 1 - gain / theory.blocks);
  return theory;
}

std::string_view regime_name(double exponent) {
  constexpr double still = 0.005;  // what two digits show as 0
  return exponent < -still ? "decaying" : exponent > still ? "increasing" : "frozen";
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

}  // namespace afterglow
