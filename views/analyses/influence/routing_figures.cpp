// The routing of one layer: the tokens that it reads, over how many hops, its feedback or decay, and the position code
// that feedback writes.
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "core/engine/observation/influence_theory.h"
#include "core/figure/axis.h"
#include "views/analyses/influence/influence_figures.h"
#include "views/figures/semantic_colours.h"
#include "views/figures/sheet.h"

namespace afterglow {
namespace {

constexpr int freeze_window = 16;  ///< consecutive tokens over which time may stand still
constexpr double least_positive = std::numeric_limits<double>::denorm_min();  ///< a log axis cannot show 0

/// A matrix [T*T] of reading tokens (down) and read tokens (to the right); its upper half is blank.
Figure matrix_figure(const RoutingView& routing, const std::string& id, const std::string& title,
                     const std::vector<float>& matrix, const std::string& quantity, bool has_signs) {
  Figure figure = sheet(id, title, "", {.label = "source token τ", .integer_ticks = true},
                        {.label = "token t", .integer_ticks = true});
  HeatMap map{.name = quantity,
              .rows = routing.tokens,
              .cols = routing.tokens,
              .value = {.label = quantity},
              .nan_is_blank = true};
  const auto T = static_cast<std::size_t>(std::max(routing.tokens, 0));
  std::vector<double> cells(T * T, std::numeric_limits<double>::quiet_NaN());
  double largest = 0;
  for (std::size_t i = 0; i < cells.size() && i < matrix.size(); ++i) {
    if (i % T > i / T) continue;
    cells[i] = matrix[i];
    // The diagonal of a resolvent is 1, and the first tokens read few others: with them the rest would have no colour.
    if (std::isfinite(matrix[i]) && i % T != i / T && i / T >= std::min<std::size_t>(8, T - 1))
      largest = std::max(largest, std::abs(cells[i]));
  }
  const double reach = colour_reach(largest);
  // Weights fall with the number of tokens that share them, so the scale is logarithmic; late rows would be invisible.
  map.map = has_signs ? ColourMap::diverging : ColourMap::sequential;
  map.value.range = has_signs ? Range{-reach, reach} : Range{std::min(0.1 / routing.tokens, reach / 10), reach};
  map.value.scale = has_signs ? Scale::symlog : Scale::log;
  if (has_signs) map.value.symlog_threshold = reach / 10;
  map.cells = std::move(cells);
  figure.series.emplace_back(std::move(map));
  return figure;
}

Line token_line(const std::string& name, const std::vector<double>& values, Ink ink) {
  return counted_line(name, values, 0, ink, Dash::solid);
}

Figure token_figure(const std::string& id, const std::string& title, const std::string& quantity,
                    std::string subtitle = "") {
  return sheet(id, title, std::move(subtitle), {.label = "token t", .integer_ticks = true}, {quantity});
}

Figure hops_figure(const RoutingView& routing) {
  Figure figure = sheet("routing_hops", "Hops", "weight that reaches the last token over k hops", {"hops k"},
                        {"mass (B^k 1)_T"}, LabelPlacement::none);
  Bars bars{.name = "mass"};
  const std::size_t last = routing.hop_masses.size() - 1;
  for (std::size_t k = 0; k <= last; ++k) {
    bars.bars.push_back({static_cast<double>(k), routing.hop_masses[k], std::numeric_limits<double>::quiet_NaN(),
                         k == last ? Ink(Role::faint) : layer_ink(routing.kind)});
    if (k == last || k % 4 == 0)
      figure.x.ticks.push_back({static_cast<double>(k), k == last ? "more" : std::to_string(k)});
  }
  figure.series.emplace_back(std::move(bars));
  return figure;
}

/// The hops of an impulse at token 0 over the lag: one hop falls as the weights do, each further one lasts longer.
Figure hop_profiles_figure(const RoutingView& routing) {
  Figure figure = lag_figure("routing_hop_profiles", "Hops over the lag", "|(B^k)_t0|");
  figure.subtitle = "weight that token 0 sends over k hops; the sum over all hops is the resolvent";
  figure.labels = LabelPlacement::automatic;
  const std::size_t last = routing.hop_profiles.size() - 1;
  for (std::size_t k = 0; k <= last; ++k) {
    std::vector<double> values;  // 0 at lag 0, and with fewer tokens than hops
    for (const double value : routing.hop_profiles[k]) values.push_back(values.empty() ? 0 : std::abs(value));
    const Line line = lag_line(k == last ? "all hops"
                               : k == 0  ? "1 hop"
                                         : std::to_string(k + 1) + " hops",
                               counted(values.size()), values, 1, least_positive);
    figure.series.push_back(styled(line, {.ink = k == last ? layer_ink(routing.kind) : Ink(static_cast<int>(k)),
                                          .dash = k == last ? Dash::solid : Dash::automatic,
                                          .width = k == last ? 2.4 : 1.4}));
  }
  return figure;
}

Figure gain_figure(const RoutingView& routing) {
  Figure figure = token_figure("routing_gain", "Feedback gain", "gain γ_t");
  figure.series.emplace_back(token_line("γ", routing.gain, layer_ink(routing.kind)));
  add_level(figure, 0, "", Role::faint, Dash::dotted);
  figure.labels = LabelPlacement::none;
  return figure;
}

/// Numbers with the limit 1, which they must not reach (the first two: assumptions) or exceed (the others: theorems).
Figure assumptions_figure(const RoutingView& routing) {
  const FeedbackBounds bounds = bounds_of(routing);
  Figure figure =
      sheet("routing_assumptions", "Assumptions", "", {"quantity"}, {"share of the limit"}, LabelPlacement::none);
  if (!(bounds.mass < 1)) {
    figure.subtitle = "γ_max c₂ = " + number_text(bounds.mass, 3) + " ≥ 1: theorem 8 does not apply";
  } else {
    figure.subtitle = "β = " + number_text(1 - bounds.mass, 2) + "; at " + number_text(bounds.envelope_share, 2) +
                      " of theorem 8's bound at lag " + std::to_string(bounds.envelope_lag);
  }
  std::vector<std::pair<const char*, double>> shares{{"|γ|", bounds.contraction},
                                                     {"γ c₂", bounds.mass},
                                                     {"|s|", bounds.amplification / bounds.bound},
                                                     {"tail", bounds.envelope_share}};
  if (!routing.reach.entering.empty()) shares.emplace_back("|y|", reach_share(routing));
  Bars bars{.name = "share of the limit", .width = 0.6};
  for (std::size_t i = 0; i < shares.size(); ++i) {
    const auto& [name, share] = shares[i];
    const auto x = static_cast<double>(i);
    bars.bars.push_back({x, share, std::numeric_limits<double>::quiet_NaN(),
                         share < 1 + 1e-6 ? layer_ink(routing.kind) : Ink(Role::warning)});
    figure.x.ticks.push_back({x, name});
  }
  figure.x.range = Range{-0.6, static_cast<double>(shares.size()) - 0.4};
  figure.series.emplace_back(std::move(bars));
  add_level(figure, 1, "limit", Role::dim, Dash::dashed);
  return figure;
}

/// Output lengths of tokens over their input length, with the bound of theory.
Figure reach_figure(const RoutingView& routing) {
  const BlockReach& reach = routing.reach;
  Figure figure =
      sheet("routing_reach", "Ball to ball",
            "the longest answer has " + number_text(reach_share(routing), 2) + " of the length that the bound allows",
            {.label = "R, length of a token |x_t|"}, {.label = "|y_t|", .scale = Scale::log});
  Scatter tokens{.name = "tokens"};
  for (std::size_t t = 0; t < std::min(reach.entering.size(), reach.leaving.size()); ++t)
    tokens.points.push_back({.x = reach.entering[t],
                             .y = reach.leaving[t],
                             .radius = 2.5,
                             .ink = layer_ink(routing.kind),
                             .id = "token " + std::to_string(t)});
  figure.series.emplace_back(std::move(tokens));
  figure.series.emplace_back(line_through("proposition 25", reach.radii, reach.bounds, Role::dim, Dash::dashed));
  return figure;
}

/// The tail of a state is exp(-rate lag); the rate is proportional to the mean step: where that goes to 0, time stands
/// still.
std::string decay_text(const RoutingView& routing) {
  std::string text = "mean rate " + number_text(routing.mean_rate, 3) + " per token";
  if (routing.mean_step > 0) text = "mean step Δ " + number_text(routing.mean_step, 2) + " · " + text;
  if (!(routing.mean_rate > 0)) return text + ": frozen time";
  const double memory = 1 / routing.mean_rate, slowest = slowest_rate(routing, freeze_window);
  if (std::isfinite(slowest))
    text += " (" + number_text(slowest, 2) + " in the slowest " + std::to_string(freeze_window) + ")";
  return text + ": fades over " + number_text(memory, 3) + " tokens" + (memory > routing.tokens ? ", frozen time" : "");
}

Figure decay_figure(const RoutingView& routing) {
  Figure figure = token_figure("routing_decay", "State retention factor", "factor a_t per token");
  figure.subtitle = "dashed: geometric mean · " + decay_text(routing);  // a name at the line would cover the curve
  figure.series.emplace_back(token_line("a", routing.decay, layer_ink(routing.kind)));
  add_level(figure, std::exp(-routing.mean_rate), "", Role::dim, Dash::dashed);
  figure.labels = LabelPlacement::none;
  return figure;
}

/// The accumulated step over the lag: from token 0, and the smallest of all heads and windows, with the mean rate.
Figure freeze_figure(const RoutingView& routing) {
  Figure figure = lag_figure("routing_freeze", "Accumulated step", "Δ(τ, τ + lag)");
  const std::vector<double>& least = routing.min_accumulated;
  std::vector<double> lags, worst, mean;
  for (std::size_t lag = 1; lag < least.size(); ++lag) {
    lags.push_back(static_cast<double>(lag));
    worst.push_back(least[lag]);
    mean.push_back(routing.mean_rate * static_cast<double>(lag));
  }
  const std::size_t window = std::min(least.size() - 1, static_cast<std::size_t>(freeze_window));
  const double constant = least[window] / static_cast<double>(window);
  figure.subtitle = "worst constant c = " + number_text(constant, 3) + " over " + std::to_string(window) +
                    (constant > 1e-3 ? " tokens: time does not stand still" : " tokens: time can stand still");
  const auto line = [&](std::string name, const std::vector<double>& values, Ink ink, Dash dash) {
    figure.series.push_back(
        styled(lag_line(std::move(name), lags, values, 1, least_positive), {.ink = ink, .dash = dash}));
  };
  line("smallest over heads and sources", worst, layer_ink(routing.kind), Dash::solid);
  for (std::size_t h = 0; h < routing.accumulated.size() && h < 4; ++h)
    line("head " + std::to_string(h) + " from token 0",
         {routing.accumulated[h].begin() + 1, routing.accumulated[h].end()}, layer_ink(routing.kind), Dash::dotted);
  line("mean rate, a time-invariant system", mean, Role::dim, Dash::dashed);
  return figure;
}

Figure effective_figure(const RoutingView& routing) {
  Figure figure = token_figure("routing_effective", "Effective number of tokens", "exp(entropy)",
                               "c₂ = " + number_text(routing.c2, 3) + "; uniform routing has c₂ = 1");
  const bool is_strict = !routing.feedback.empty();
  const std::vector<double> uniform = counted(routing.effective.size(), is_strict ? 0 : 1);
  figure.series.push_back(styled(token_line("uniform", uniform, Role::dim), {.dash = Dash::dashed, .width = 1.3}));
  figure.series.emplace_back(token_line("read", routing.effective, layer_ink(routing.kind)));
  return figure;
}

Figure spread_figure(const RoutingView& routing) {
  Figure figure = token_figure("routing_spread", "Logit spread", "largest − smallest logit", "0 is perfectly diffuse");
  figure.series.emplace_back(token_line("spread", routing.logit_spread, layer_ink(routing.kind)));
  figure.labels = LabelPlacement::none;
  return figure;
}

Line code_of_uniform(double gamma, int tokens) {
  return styled(
      token_line("γ = " + number_text(gamma, 2) + ", uniform routing", uniform_code(gamma, tokens), Role::dim),
      {.dash = Dash::dashed, .width = 1.4});
}

std::string exponent_text(const InfluenceFit& fit) {
  const double slope = std::abs(fit.power.slope) < 5e-4 ? 0 : fit.power.slope;
  return number_text(slope, 2) + " ± " + number_text(0.5 * (fit.power.slope_high - fit.power.slope_low), 1);
}

Line deep_line(const DeepProfile& deep, const std::string& name, std::vector<double> lags, std::vector<double> values) {
  return line_through("k = " + std::to_string(deep.blocks) + " " + std::string(regime_name(deep.theory)) + ": " + name,
                      std::move(lags), std::move(values), deep.blocks - 1, Dash::solid);
}

/// The share of positions that the nearest code recovers, for each code of the figure, over the added noise.
Figure recovery_figure(const Figure& codes) {
  Figure figure =
      sheet("position_recovery", "Recovery of the position", "share of the positions that the nearest code recovers",
            {.label = "noise on the code, standard deviation", .scale = Scale::log},
            {.label = "positions recovered", .range = Range{0, 1.04}}, LabelPlacement::legend);
  for (const Series& series : codes.series) {
    const auto& code = std::get<Line>(series);
    std::vector<double> noise, share;
    for (double exponent = -6; exponent <= 0; exponent += 0.125) {
      noise.push_back(std::pow(10.0, exponent));
      share.push_back(recovered_positions(code.curve.y.span(), noise.back()));
    }
    figure.series.emplace_back(
        line_through(code.name, std::move(noise), std::move(share), code.ink, code.dash, code.width));
  }
  return figure;
}

/// Dots: the Jacobian of the stack; thin: the recursion, which continues; dashed: the theorem's law through its end.
Figure deep_tails_figure(const std::vector<DeepProfile>& profiles) {
  Figure figure = lag_figure("deep_profiles", "Deep profiles", "|∂y_t/∂x_0|");
  const double beta = profiles.front().beta;
  figure.subtitle =
      "β = " + number_text(beta, 2) +
      " · dots: Jacobian with its fit (theory), line: recursion, dashed: theorem 12, dotted: construction K.22";
  for (const DeepProfile& deep : profiles) {
    if (deep.beta != beta) continue;
    std::vector<double> law;
    const InfluenceTheory theorem{.law = TheoryLaw::deep_feedback, .parameter = deep.theory};
    for (const double lag : deep.far_lags)
      law.push_back(deep.far_values.back() * theorem.at(lag / deep.far_lags.back()));
    Line theory =
        styled(deep_line(deep, "theory", deep.far_lags, std::move(law)), {.dash = Dash::dashed, .width = 1.2});
    Line recursion = deep_line(deep, "recursion", deep.far_lags, deep.far_values);
    recursion.width = 1;
    Line built = styled(deep_line(deep, "construction K.22", deep.far_lags, deep.built_values),
                        {.dash = Dash::dotted, .width = 1});
    theory.is_quiet = recursion.is_quiet = built.is_quiet = true;  // they belong to the measured line
    const std::string fit = "lag^" + exponent_text(deep.fit) + " (" + number_text(deep.theory, 2) + ")";
    Line measured = deep_line(deep, fit, deep.lags, deep.values);
    measured.marker = Marker::circle;
    for (Line* line : {&theory, &built, &recursion, &measured}) figure.series.emplace_back(std::move(*line));
  }
  return figure;
}

/// One point with its interval for each stack, the theorem's line for each beta.
Figure deep_exponents_figure(const std::vector<DeepProfile>& profiles) {
  Figure figure = sheet("deep_exponents", "Exponents",
                        "of k blocks; dots: fit of the Jacobian with its 95 % interval, lines: k (1 − β) − 1",
                        {.label = "blocks k", .integer_ticks = true}, {"exponent"});
  const auto [least, most] = std::minmax_element(profiles.begin(), profiles.end(),
                                                 [](const auto& a, const auto& b) { return a.theory < b.theory; });
  figure.x.range = Range{0.7, std::max(least->blocks, most->blocks) + 0.5};
  figure.y.range = Range{least->theory - 0.25, most->theory + 0.25};
  figure.labels = LabelPlacement::at_curves;
  add_level(figure, 0, "frozen", Role::dim, Dash::dotted);
  std::vector<double> betas;
  for (const DeepProfile& deep : profiles) {
    if (std::find(betas.begin(), betas.end(), deep.beta) == betas.end()) betas.push_back(deep.beta);
  }
  Scatter measured{.name = "measured", .marker = Marker::circle};
  for (std::size_t b = 0; b < betas.size(); ++b) {
    std::vector<double> blocks, exponents;
    for (const DeepProfile& deep : profiles) {
      if (deep.beta != betas[b]) continue;
      blocks.push_back(deep.blocks);
      exponents.push_back(deep.theory);
      const Ink ink = static_cast<int>(b);
      figure.series.push_back(
          styled(line_through("interval, β = " + number_text(deep.beta, 2) + ", k = " + std::to_string(deep.blocks),
                              {blocks.back(), blocks.back()}, {deep.fit.power.slope_low, deep.fit.power.slope_high},
                              ink, Dash::solid),
                 {.is_quiet = true}));
      measured.points.push_back({.x = blocks.back(),
                                 .y = deep.fit.power.slope,
                                 .ink = ink,
                                 .id = "k = " + std::to_string(deep.blocks) + ", β = " + number_text(deep.beta, 2) +
                                       ", theory " + number_text(deep.theory, 2),
                                 .label = exponent_text(deep.fit)});
    }
    figure.series.emplace_back(line_through("β = " + number_text(betas[b], 2), std::move(blocks), std::move(exponents),
                                            static_cast<int>(b), Dash::dashed, 1.3));
  }
  figure.series.emplace_back(std::move(measured));
  return figure;
}

}  // namespace

const RoutingView* selected_routing(const Observation& observation, const Selection& selection) {
  if (!observation.influence || observation.influence->routing.empty()) return nullptr;
  const RoutingView* feedback = nullptr;
  for (const RoutingView& routing : observation.influence->routing) {
    if (routing.layer == selection.layer) return &routing;
    if (!feedback && !routing.feedback.empty()) feedback = &routing;
  }
  return feedback ? feedback : &observation.influence->routing.front();
}

std::string routing_subtitle(const Observation& observation, const Selection& selection) {
  const RoutingView* routing = selected_routing(observation, selection);
  if (!routing)
    return why_not_yet(observation,
                       "Waiting: measured with the influence tails when training pauses, or between training steps.");
  return layer_name(observation, routing->layer) + " · T " + grouped_number(routing->tokens) +
         age_text(observation, observation.influence->step);
}

std::vector<Figure> routing_figures(const Observation& observation, const Selection& selection, CurveStore&) {
  const RoutingView* routing = selected_routing(observation, selection);
  if (!routing || routing->tokens < 1) return {};
  std::vector<Figure> figures;
  if (!routing->feedback.empty()) {
    figures.push_back(
        matrix_figure(*routing, "routing_feedback", "Feedback weights", routing->feedback, "α_fb", false));
    figures.push_back(
        matrix_figure(*routing, "routing_resolvent", "Resolvent (I − B)⁻¹", routing->resolvent, "influence", true));
  } else if (!routing->weights.empty()) {
    const auto head =
        static_cast<std::size_t>(std::clamp(selection.head, 0, static_cast<int>(routing->weights.size()) - 1));
    figures.push_back(matrix_figure(*routing, "routing_weights", "Weights, head " + std::to_string(head),
                                    routing->weights[head], "weight", !shows(routing->kind, LayerTrait::token_shares)));
  }
  if (!routing->hop_masses.empty()) figures.push_back(hops_figure(*routing));
  if (!routing->gain.empty()) {
    figures.push_back(assumptions_figure(*routing));
    if (!routing->reach.entering.empty()) figures.push_back(reach_figure(*routing));
    figures.push_back(gain_figure(*routing));
  }
  if (!routing->decay.empty()) figures.push_back(decay_figure(*routing));
  if (routing->min_accumulated.size() > 2) figures.push_back(freeze_figure(*routing));
  if (!routing->effective.empty()) {
    figures.push_back(effective_figure(*routing));
    figures.push_back(spread_figure(*routing));
  }
  if (!routing->hop_profiles.empty()) figures.push_back(hop_profiles_figure(*routing));
  return figures;
}

std::string position_code_subtitle(const Observation& observation, const Selection& selection) {
  const RoutingView* routing = selected_routing(observation, selection);
  if (!routing || routing->position_code.empty())
    return "what feedback makes of a constant signal, with uniform routing";
  const FeedbackBounds bounds = bounds_of(*routing);
  return layer_name(observation, routing->layer) + " · what its feedback makes of a constant signal · " +
         (bounds.is_ordered ? "ordered, steps of at least " + number_text(bounds.least_step, 2)
                            : "not ordered: some positions have equal codes");
}

// Without feedback in the model only the closed forms are shown: rising codes with a different value at each position.
std::vector<Figure> position_code_figures(const Observation& observation, const Selection& selection, CurveStore&) {
  const RoutingView* routing = selected_routing(observation, selection);
  Figure figure = token_figure("position_code", "Position code", "s_t of (I − B) s = 1");
  if (routing && !routing->position_code.empty()) {
    figure.series.emplace_back(token_line(routing->kind, routing->position_code, layer_ink(routing->kind)));
    figure.series.emplace_back(code_of_uniform(std::clamp(mean_gain(*routing), -0.999, 0.999), routing->tokens));
    return {figure, recovery_figure(figure)};
  }
  constexpr int shown = 128;
  for (const double gamma : {0.3, 0.6, 0.9}) figure.series.emplace_back(code_of_uniform(gamma, shown));
  int place = 0;
  for (Series& series : figure.series) std::get<Line>(series).ink = place++;
  return {figure, recovery_figure(figure)};
}

std::string deep_profiles_subtitle(const Observation& observation, const Selection&) {
  if (!observation.influence || !observation.influence->deep) return "Waiting for the influence tails.";
  return "k stacked blocks, uniform routing: exponent k (1 − β) − 1";
}

std::vector<Figure> deep_profiles_figures(const Observation& observation, const Selection&, CurveStore&) {
  if (!observation.influence || !observation.influence->deep || observation.influence->deep->empty()) return {};
  const std::vector<DeepProfile>& profiles = *observation.influence->deep;
  return {deep_tails_figure(profiles), deep_exponents_figure(profiles)};
}

}  // namespace afterglow
