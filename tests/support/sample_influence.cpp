// Power laws, exponentials and a silent layer.
#include "tests/support/sample_influence.h"

#include <cmath>
#include <limits>

#include "core/analysis/influence/influence.h"
#include "core/engine/analyses/influence/jacobian_measure.h"

namespace afterglow::samples {

namespace {

constexpr int tokens = 48;

template <class Law>
InfluenceTail tail_of(const std::string& label, const std::string& kind, int layer, const Law& law) {
  InfluenceTail tail;
  tail.label = label;
  tail.kind = kind;
  tail.layer = layer;
  for (const int lag : spread_lags(tokens - 1, 10)) {
    tail.lags.push_back(lag);
    tail.values.push_back(law(lag));
  }
  judge_tail(tail);
  return tail;
}

RoutingView feedback_of(int layer) {
  RoutingView routing;
  routing.layer = layer;
  routing.kind = "sessa";
  routing.tokens = tokens;
  std::vector<double> alpha(tokens * tokens, 0.0), B(tokens * tokens, 0.0);
  for (int t = 1; t < tokens; ++t) {
    for (int j = 0; j < t; ++j) {
      const auto at = static_cast<std::size_t>(t * tokens + j);
      alpha[at] = (1 + 0.3 * std::sin(t + 2.0 * j)) / t;
      B[at] = 0.6 * alpha[at];
    }
  }
  const RoutingSpread spread = routing_spread(alpha, tokens, true);
  routing.logit_spread = spread.logit_spread;
  routing.effective = spread.effective;
  routing.c2 = spread.c2;
  routing.feedback.assign(alpha.begin(), alpha.end());
  const std::vector<double> R = resolvent(B, tokens);
  routing.resolvent.assign(R.begin(), R.end());
  routing.weights.emplace_back(R.begin(), R.end());
  routing.gain.assign(tokens, 0.6);
  routing.hop_masses = hop_masses(B, tokens, tokens - 1, 12);
  const std::vector<double> hops = hop_profiles(B, tokens, 0, 2);
  for (int k = 1; k <= 2; ++k)
    routing.hop_profiles.emplace_back(hops.begin() + k * tokens, hops.begin() + (k + 1) * tokens);
  std::vector<double>& all = routing.hop_profiles.emplace_back();
  for (int t = 0; t < tokens; ++t) all.push_back(R[t * tokens]);
  routing.position_code = position_code(B, tokens);
  for (int t = 0; t < tokens; ++t) {
    routing.reach.entering.push_back(2 + std::sin(t));
    routing.reach.leaving.push_back(3 + std::cos(t));
  }
  routing.reach.radii = {1, 2, 3};
  routing.reach.bounds = {20, 30, 40};
  return routing;
}

RoutingView decay_of(int layer) {
  RoutingView routing;
  routing.layer = layer;
  routing.kind = "mamba2";
  routing.tokens = tokens;
  routing.mean_rate = 0.1;
  routing.mean_step = 0.05;
  routing.decay.assign(tokens, std::exp(-0.1));
  for (int t = 0; t < tokens; ++t) routing.min_accumulated.push_back(0.1 * t);
  routing.accumulated = {routing.min_accumulated};
  routing.largest_factor = 1;
  std::vector<float>& w = routing.weights.emplace_back(tokens * tokens, std::numeric_limits<float>::quiet_NaN());
  for (int t = 0; t < tokens; ++t) {
    for (int s = 0; s <= t; ++s)
      w[static_cast<std::size_t>(t * tokens + s)] = static_cast<float>(std::exp(-0.1 * (t - s)));
  }
  return routing;
}

DeepProfile deep_of(int blocks) {
  DeepProfile deep;
  deep.blocks = blocks;
  deep.beta = 0.5;
  deep.theory = deep_exponent(blocks, deep.beta);
  for (const int lag : spread_lags(1000, 8)) {
    deep.lags.push_back(lag);
    deep.values.push_back(std::pow(lag, deep.theory) * (1 + 0.05 * std::sin(lag)));
    deep.far_lags.push_back(10 * lag);
    deep.far_values.push_back(std::pow(10.0 * lag, deep.theory));
    deep.built_values.push_back(1.5 * deep.far_values.back());
  }
  deep.fit = fit_influence(deep.lags, deep.values);
  deep.far_fit = fit_influence(deep.far_lags, deep.far_values);
  return deep;
}

RaceEntry entry_of(InfluenceTail tail, std::int64_t bytes, double ms) {
  RaceEntry entry;
  entry.tail = std::move(tail);
  entry.weights = "initial";
  entry.state_bytes = bytes;
  entry.step_ms = ms;
  entry.recall_lags = {1, 2, 5, 10, 20, 40};
  for (const double lag : entry.recall_lags) entry.recall.push_back(0.25 + 0.75 / (1 + 0.1 * lag));
  entry.state_rows = 12;
  entry.state_columns = 8;
  for (int i = 0; i < 96; ++i) entry.state.push_back(static_cast<float>(std::sin(0.7 * i)));
  entry.state_name = "state · 12 × 8";
  return entry;
}

}  // namespace

std::shared_ptr<const InfluenceView> influence_of(const Observation& observation) {
  auto view = std::make_shared<InfluenceView>();
  view->step = observation.step;
  view->tokens = tokens;
  view->sources = {0, 3, 6};
  view->directions = 4;
  view->blocks.push_back(tail_of("0 mamba2", "mamba2", 1, [](double l) { return 0.8 * std::exp(-0.1 * l); }));
  view->blocks.push_back(tail_of("1 sessa", "sessa", 3, [](double l) { return 0.3 * std::pow(l, -0.4); }));
  view->blocks.push_back(tail_of("2 ska", "ska", 5, [](double) { return 0.0; }));
  view->blocks.push_back(tail_of("whole stack", "stack", -1, [](double l) { return 0.9 * std::pow(l, -0.4); }));
  for (InfluenceTail& tail : view->blocks) {
    for (const double v : tail.values) {
      tail.low.push_back(0.8 * v);
      tail.high.push_back(1.25 * v);
    }
  }
  view->fixed.assign(view->blocks.begin(), view->blocks.begin() + 2);
  for (InfluenceTail& tail : view->fixed) {
    tail.low.clear();
    tail.high.clear();
  }
  view->routing = {decay_of(1), feedback_of(3)};
  view->fixed.back().is_resolvent = true;
  view->fixed.back().label += ", feedback alone";
  view->deep = std::make_shared<const std::vector<DeepProfile>>(
      std::initializer_list<DeepProfile>{deep_of(1), deep_of(2), deep_of(3)});
  view->is_complete = true;
  return view;
}

std::shared_ptr<const RaceView> race_of(const Observation& observation) {
  auto race = std::make_shared<RaceView>();
  race->tokens = tokens;
  race->width = 64;
  race->seed = observation.seed;
  race->kinds = {"ska", "mamba2", "sessa"};
  race->entries.push_back(
      entry_of(tail_of("sessa", "sessa", -1, [](double l) { return std::pow(l, -0.4); }), 24576, 0.04));
  race->entries.push_back(
      entry_of(tail_of("mamba2", "mamba2", -1, [](double l) { return std::exp(-0.3 * l); }), 4096, 0.02));
  race->contestants = 2;
  race->is_complete = true;
  return race;
}

}  // namespace afterglow::samples
