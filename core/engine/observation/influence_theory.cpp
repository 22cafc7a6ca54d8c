// Closed forms with the numbers of a measured routing.
#include "core/engine/observation/influence_theory.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "core/analysis/influence.h"

namespace afterglow {

double InfluenceTheory::at(double lag) const {
  if (law == TheoryLaw::uniform_feedback) return uniform_routing_influence(parameter, source, lag);
  if (law == TheoryLaw::decaying_state) return std::exp(-parameter * lag);
  if (law == TheoryLaw::feedback_envelope) return envelope_constant(parameter) * std::pow(lag, -parameter);
  if (law == TheoryLaw::diffuse_envelope) return parameter / (source + lag + 1);
  if (law == TheoryLaw::freeze_envelope) {
    const auto at = std::min(static_cast<std::size_t>(lag), accumulated.size() - 1);
    return parameter * std::exp(-accumulated[at]);
  }
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

std::vector<double> least_accumulated(const RoutingView& routing) {
  const auto tokens = static_cast<std::size_t>(routing.tokens);
  std::vector<double> least(routing.accumulated.empty() ? 0 : tokens, std::numeric_limits<double>::infinity());
  for (const std::vector<double>& head : routing.accumulated) {
    for (std::size_t lag = 0; lag < tokens; ++lag) {
      for (std::size_t t = lag; t < head.size(); ++t) least[lag] = std::min(least[lag], head[t] - head[t - lag]);
    }
  }
  return least;
}

double largest_factor(const RoutingView& routing) {
  constexpr float lost = 1e-30F;
  const auto tokens = static_cast<std::size_t>(routing.tokens);
  double largest = 0;
  for (std::size_t h = 0; h < std::min(routing.weights.size(), routing.accumulated.size()); ++h) {
    for (std::size_t t = 0; t < tokens; ++t) {
      for (std::size_t tau = 0; tau <= t; ++tau) {
        const float weight = std::abs(routing.weights[h][t * tokens + tau]);
        if (!(weight > lost)) continue;
        const double faded = routing.accumulated[h][t] - routing.accumulated[h][tau];
        largest = std::max(largest, static_cast<double>(weight) * std::exp(faded));
      }
    }
  }
  return largest;
}

InfluenceTheory fixed_envelope_of(const RoutingView& routing, std::span<const int> sources) {
  InfluenceTheory theory = envelope_of(routing);
  if (routing.gain.empty() && routing.c2 > 0) {
    theory.law = TheoryLaw::diffuse_envelope;
    theory.parameter = routing.c2;
    // The mean over the sources of a falling convex function is at most that of the first one.
    theory.source = sources.empty() ? 0 : *std::ranges::min_element(sources);
  } else if (routing.gain.empty() && routing.largest_factor > 0 && routing.mean_step > 0) {
    theory.law = TheoryLaw::freeze_envelope;
    theory.parameter = routing.largest_factor;
    theory.accumulated = routing.least_accumulated;
  }
  theory.is_absolute = theory.law != TheoryLaw::none;
  return theory;
}

FeedbackBounds bounds_of(const RoutingView& routing) {
  FeedbackBounds bounds;
  for (const double gain : routing.gain) bounds.contraction = std::max(bounds.contraction, std::abs(gain));
  bounds.mass = bounds.contraction * routing.c2;
  bounds.bound = bounds.contraction < 1 ? 1 / (1 - bounds.contraction) : std::numeric_limits<double>::infinity();
  bounds.envelope_share = bounds.mass < 1 ? 0 : std::nan("");
  const double beta = 1 - bounds.mass, constant = envelope_constant(beta);
  const auto tokens = static_cast<std::size_t>(routing.tokens);
  for (std::size_t t = 0; t < tokens && routing.resolvent.size() == tokens * tokens; ++t) {
    double sum = 0;
    for (std::size_t tau = 0; tau <= t; ++tau) {
      const double influence = std::abs(static_cast<double>(routing.resolvent[t * tokens + tau]));
      sum += influence;
      const double share = influence / (constant * std::pow(static_cast<double>(t - tau), -beta));
      if (tau == t || !(share > bounds.envelope_share)) continue;
      bounds.envelope_share = share;
      bounds.envelope_lag = static_cast<int>(t - tau);
    }
    bounds.amplification = std::max(bounds.amplification, sum);
  }
  bounds.least_step = std::numeric_limits<double>::infinity();
  double rises = 0, falls = 0;
  for (std::size_t t = 1; t < routing.position_code.size(); ++t) {
    const double step = routing.position_code[t] - routing.position_code[t - 1];
    bounds.least_step = std::min(bounds.least_step, std::abs(step));
    ++(step > 0 ? rises : falls);
  }
  bounds.is_ordered = rises == 0 || falls == 0;
  return bounds;
}

double slowest_rate(const RoutingView& routing, int length) {
  const auto window = static_cast<std::size_t>(std::max(1, length));
  double slowest = std::nan(""), sum = 0;
  // The first token has no state to keep.
  for (std::size_t t = 1; t < routing.decay.size(); ++t) {
    sum -= std::log(routing.decay[t]);
    if (t > window) sum += std::log(routing.decay[t - window]);
    if (t >= window) slowest = std::fmin(slowest, sum / static_cast<double>(window));
  }
  return slowest;
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

double recovered_positions(std::span<const double> code, double deviation) {
  if (code.empty()) return std::nan("");
  std::vector<double> sorted(code.begin(), code.end());
  std::ranges::sort(sorted);
  // Noise may go half a gap to either side; at the ends as far as it likes.
  const auto stays = [&](double gap) { return 0.5 * std::erf(gap / (2 * std::sqrt(2.0) * deviation)); };
  double sum = 0;
  for (std::size_t i = 0; i < sorted.size(); ++i)
    sum += (i == 0 ? 0.5 : stays(sorted[i] - sorted[i - 1])) +
           (i + 1 == sorted.size() ? 0.5 : stays(sorted[i + 1] - sorted[i]));
  return sum / static_cast<double>(sorted.size());
}

}  // namespace afterglow
