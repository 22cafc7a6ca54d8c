// Closed forms with the numbers of a measured routing.
#include "core/engine/observation/influence_theory.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "core/analysis/influence/influence.h"

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
  if (!heights.empty()) return heights[std::min(static_cast<std::size_t>(lag), heights.size() - 1)];
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

std::vector<double> min_accumulated(const RoutingView& routing) {
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
    // The mean over sources of a decreasing convex function is at most its value at the first source.
    theory.source = sources.empty() ? 0 : *std::ranges::min_element(sources);
  } else if (routing.gain.empty() && routing.largest_factor > 0 && routing.mean_step > 0) {
    theory.law = TheoryLaw::freeze_envelope;
    theory.parameter = routing.largest_factor;
    theory.accumulated = routing.min_accumulated;
  }
  theory.is_absolute = theory.law != TheoryLaw::none;
  return theory;
}

namespace {

/// The mean at each lag over the sources that reach it.
std::vector<double> mean_heights(std::span<const std::vector<double>> of_sources) {
  std::vector<double> mean;
  for (std::size_t lag = 0;; ++lag) {
    double sum = 0, count = 0;
    for (const std::vector<double>& heights : of_sources) {
      if (lag >= heights.size()) continue;
      sum += heights[lag];
      ++count;
    }
    if (count == 0) return mean;
    mean.push_back(sum / count);
  }
}

/// The largest constant of any source over the whole sequence, and its ratio to that over the first half.
struct SettledConstant {
  double value = 0, growth = 1;
};
SettledConstant settled(const RoutingView& routing, std::vector<double> SourceForcing::*of) {
  double whole = 0, first_half = 0;
  for (const SourceForcing& forcing : routing.forcing) {
    const std::vector<double>& at = forcing.*of;
    const int end = static_cast<int>(at.size());
    whole = std::max(whole, dilution_constant(at, forcing.source, end, 0));
    first_half = std::max(first_half, dilution_constant(at, forcing.source, end / 2, 0));
  }
  return {whole, first_half > 0 ? whole / first_half : 1};
}

}  // namespace

InfluenceTheory end_to_end_envelope_of(const RoutingView& routing) {
  InfluenceTheory theory = envelope_of(routing);
  if (routing.forcing.empty()) return {};
  std::vector<std::vector<double>> of_sources;
  for (const SourceForcing& forcing : routing.forcing) {
    if (routing.mean_step > 0) {
      theory.law = TheoryLaw::fading_state;
      std::vector<double>& heights =
          of_sources.emplace_back(forcing.forward.begin() + forcing.source, forcing.forward.end());
      for (double& height : heights) height *= forcing.outlet;
      theory.parameter = std::max(theory.parameter, forcing.outlet * forcing.own);
    } else if (routing.gain.empty()) {
      theory.law = TheoryLaw::smooth_attention;
      of_sources.push_back(diluted_envelope(forcing));
      const double own = forcing.outlet * dilution_constant(forcing.forward, forcing.source, routing.tokens, 1);
      theory.parameter = std::max(theory.parameter, own);
    } else if (theory.law != TheoryLaw::none && theory.law != TheoryLaw::forced_solve) {
      theory.law = TheoryLaw::forced_feedback;
      of_sources.push_back(forced_envelope(forcing, theory.parameter));
    } else {
      theory.law = TheoryLaw::forced_solve;
      theory.parameter = bounds_of(routing).mass;
      of_sources.push_back(forced_solve(forcing, routing.resolvent));
    }
  }
  theory.heights = mean_heights(of_sources);
  theory.is_absolute = true;
  return theory.heights.empty() ? InfluenceTheory{} : theory;
}

ForcingConstants forcing_constants(const RoutingView& routing) {
  ForcingConstants constants;
  const SettledConstant dilution = settled(routing, &SourceForcing::forward);
  const SettledConstant logits = settled(routing, &SourceForcing::logits);
  constants.dilution = dilution.value;
  constants.dilution_growth = dilution.growth;
  constants.logits = logits.value;
  constants.logits_growth = logits.growth;
  for (const SourceForcing& forcing : routing.forcing) constants.own = std::max(constants.own, forcing.own);
  return constants;
}

int failing_assumption(const ForcingConstants& constants) {
  constexpr double settles_within = 1.5;
  if (!(std::max(constants.dilution_growth, constants.logits_growth) > settles_within)) return 0;
  return constants.dilution_growth >= constants.logits_growth ? 21 : 22;
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

double reach_share(const RoutingView& routing) {
  const BlockReach& reach = routing.reach;
  if (reach.leaving.empty() || reach.bounds.empty()) return std::nan("");
  return *std::ranges::max_element(reach.leaving) / reach.bounds.back();
}

double slowest_rate(const RoutingView& routing, int length) {
  const auto window = static_cast<std::size_t>(std::max(1, length));
  double slowest = std::nan(""), sum = 0;
  // The first token has no earlier state.
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
  constexpr double still = 0.005;  // two digits show it as 0
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
  // Noise up to half a gap on either side is harmless; at the ends it is unbounded outwards.
  const auto stays = [&](double gap) { return 0.5 * std::erf(gap / (2 * std::sqrt(2.0) * deviation)); };
  double sum = 0;
  for (std::size_t i = 0; i < sorted.size(); ++i)
    sum += (i == 0 ? 0.5 : stays(sorted[i] - sorted[i - 1])) +
           (i + 1 == sorted.size() ? 0.5 : stays(sorted[i + 1] - sorted[i]));
  return sum / static_cast<double>(sorted.size());
}

}  // namespace afterglow
