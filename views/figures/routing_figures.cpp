// How one layer routes: what it reads, over how many hops, how much it feeds back or keeps, and the code of positions
// that a feedback writes by itself.
#include <algorithm>
#include <cmath>
#include <limits>

#include "core/engine/influence_theory.h"
#include "core/figure/axis.h"
#include "views/figures/influence_figures.h"
#include "views/figures/meaning.h"

namespace afterglow {

namespace {

/// A matrix [T*T] of tokens that read (down) and are read (to the right); its upper half is blank.
Figure matrix_figure(const RoutingView& routing, const std::string& id, const std::string& title,
                     const std::vector<float>& matrix, const std::string& quantity, bool has_signs) {
  Figure figure;
  figure.id = id;
  figure.title = title;
  figure.x.label = "source token τ";
  figure.y.label = "token t";
  figure.x.integer_ticks = figure.y.integer_ticks = true;
  HeatMap map;
  map.name = quantity;
  map.rows = map.cols = routing.tokens;
  map.nan_is_blank = true;
  map.value.label = quantity;
  const auto T = static_cast<std::size_t>(std::max(routing.tokens, 0));
  std::vector<double> cells(T * T, std::numeric_limits<double>::quiet_NaN());
  double largest = 0;
  for (std::size_t i = 0; i < cells.size() && i < matrix.size(); ++i) {
    if (i % T > i / T) continue;
    cells[i] = matrix[i];
    // The diagonal of a resolvent is 1, and the first tokens have few others to read: they would leave no colour for
    // the rest.
    if (std::isfinite(matrix[i]) && i % T != i / T && i / T >= std::min<std::size_t>(8, T - 1))
      largest = std::max(largest, std::abs(cells[i]));
  }
  const double reach = colour_reach(largest);
  map.map = has_signs ? ColourMap::diverging : ColourMap::sequential;
  map.value.range = has_signs ? Range{-reach, reach} : Range{0, reach};
  map.cells = std::move(cells);
  figure.series.emplace_back(std::move(map));
  return figure;
}

Line token_line(const std::string& name, const std::vector<double>& values, Ink ink) {
  std::vector<double> x(values.size());
  for (std::size_t t = 0; t < x.size(); ++t) x[t] = static_cast<double>(t);
  Line line;
  line.name = name;
  line.curve.x = std::move(x);
  line.curve.y = values;
  line.ink = ink;
  line.dash = Dash::solid;
  return line;
}

Figure token_figure(const std::string& id, const std::string& title, const std::string& quantity) {
  Figure figure;
  figure.id = id;
  figure.title = title;
  figure.x.label = "token t";
  figure.x.integer_ticks = true;
  figure.y.label = quantity;
  return figure;
}

Figure hops_figure(const RoutingView& routing) {
  Figure figure;
  figure.id = "routing_hops";
  figure.title = "Hops";
  figure.subtitle = "mass that reaches the last token over k hops";
  figure.x.label = "hops k";
  figure.y.label = "mass (B^k 1)_T";
  figure.labels = LabelPlacement::none;
  Bars bars;
  bars.name = "mass";
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

Figure gain_figure(const RoutingView& routing) {
  Figure figure = token_figure("routing_gain", "Feedback gain", "gain γ_t");
  figure.series.emplace_back(token_line("γ", routing.gain, layer_ink(routing.kind)));
  figure.reference_lines.push_back({Orientation::horizontal, 0, "", Role::faint, Dash::dotted});
  figure.labels = LabelPlacement::none;
  return figure;
}

Figure decay_figure(const RoutingView& routing) {
  Figure figure = token_figure("routing_decay", "What the state keeps", "factor a_t per token");
  figure.subtitle = "mean rate " + number_text(routing.mean_rate, 3) + ": a tail exp(−rate lag); 0 is frozen time";
  figure.series.emplace_back(token_line("a", routing.decay, layer_ink(routing.kind)));
  figure.reference_lines.push_back(
      {Orientation::horizontal, std::exp(-routing.mean_rate), "mean", Role::dim, Dash::dashed});
  figure.labels = LabelPlacement::none;
  return figure;
}

Figure effective_figure(const RoutingView& routing) {
  Figure figure = token_figure("routing_effective", "Tokens really read", "exp(entropy)");
  figure.subtitle = "c₂ = " + number_text(routing.c2, 3) + "; uniform routing has c₂ = 1";
  std::vector<double> uniform(routing.effective.size());
  const bool is_strict = !routing.feedback.empty();
  for (std::size_t t = 0; t < uniform.size(); ++t) uniform[t] = static_cast<double>(t) + (is_strict ? 0 : 1);
  Line bound = token_line("uniform", uniform, Role::dim);
  bound.dash = Dash::dashed;
  bound.width = 1.3;
  figure.series.emplace_back(std::move(bound));
  figure.series.emplace_back(token_line("read", routing.effective, layer_ink(routing.kind)));
  return figure;
}

Figure spread_figure(const RoutingView& routing) {
  Figure figure = token_figure("routing_spread", "Logit spread", "largest − smallest logit");
  figure.subtitle = "0 is perfectly diffuse";
  figure.series.emplace_back(token_line("spread", routing.logit_spread, layer_ink(routing.kind)));
  figure.labels = LabelPlacement::none;
  return figure;
}

Line code_of_uniform(double gamma, int tokens) {
  Line line = token_line("uniform routing, γ = " + number_text(gamma, 2), uniform_code(gamma, tokens), Role::dim);
  line.dash = Dash::dashed;
  line.width = 1.4;
  return line;
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
  if (!routing) return "measured with the influence tails, as soon as training rests or in its spare time";
  return layer_name(observation, routing->layer) + " · T " + grouped_number(routing->tokens) +
         (observation.influence->step == observation.step
              ? ""
              : " · as of step " + grouped_number(observation.influence->step));
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
                                    routing->weights[head], "weight", routing->kind != "attention"));
  }
  if (!routing->hop_masses.empty()) figures.push_back(hops_figure(*routing));
  if (!routing->gain.empty()) figures.push_back(gain_figure(*routing));
  if (!routing->decay.empty()) figures.push_back(decay_figure(*routing));
  if (!routing->effective.empty()) {
    figures.push_back(effective_figure(*routing));
    figures.push_back(spread_figure(*routing));
  }
  return figures;
}

std::string position_code_subtitle(const Observation& observation, const Selection& selection) {
  const RoutingView* routing = selected_routing(observation, selection);
  if (!routing || routing->position_code.empty()) return "what a feedback makes of a constant signal: uniform routing";
  return layer_name(observation, routing->layer) + " · what its feedback makes of a constant signal";
}

// Without a feedback in the model the closed forms stand alone: rising codes, each position with a value of its own.
std::vector<Figure> position_code_figures(const Observation& observation, const Selection& selection, CurveStore&) {
  const RoutingView* routing = selected_routing(observation, selection);
  Figure figure = token_figure("position_code", "Position code", "s_t of (I − B) s = 1");
  if (routing && !routing->position_code.empty()) {
    figure.series.emplace_back(token_line(routing->kind, routing->position_code, layer_ink(routing->kind)));
    figure.series.emplace_back(code_of_uniform(std::clamp(mean_gain(*routing), -0.999, 0.999), routing->tokens));
    return {figure};
  }
  constexpr int shown = 128;
  for (const double gamma : {0.3, 0.6, 0.9}) figure.series.emplace_back(code_of_uniform(gamma, shown));
  int place = 0;
  for (Series& series : figure.series) std::get<Line>(series).ink = place++;
  return {figure};
}

std::string deep_profiles_subtitle(const Observation&, const Selection&) {
  return "k stacked blocks, uniform routing, β = ½: exponent k (1 − β) − 1";
}

// A fixed experiment: it depends on nothing that is observed, so it is made once.
std::vector<Figure> deep_profiles_figures(const Observation&, const Selection&, CurveStore&) {
  static const Figure made = [] {
    constexpr double beta = 0.5;
    constexpr int tokens = 1 << 17;
    Figure figure;
    figure.id = "deep_profiles";
    figure.title = "Deep profiles";
    figure.subtitle = "impulse at token 0, dashed: the theorem's exponents";
    figure.x.label = "lag";
    figure.x.unit = "tokens";
    figure.y.label = "transport";
    figure.x.scale = figure.y.scale = Scale::log;
    figure.labels = LabelPlacement::automatic;
    constexpr const char* regimes[] = {"decaying", "frozen", "increasing"};
    for (const int blocks : {1, 2, 3}) {
      const DeepProfile deep = deep_profile(blocks, beta, tokens);
      Line line;
      line.name = "k = " + std::to_string(blocks) + ", " + regimes[blocks - 1] + ": lag^" +
                  number_text(std::abs(deep.measured) < 5e-3 ? 0 : deep.measured, 2);
      line.curve.x = deep.lags;
      line.curve.y = deep.values;
      line.ink = blocks - 1;
      line.dash = Dash::solid;
      Line theory = line;
      theory.is_quiet = true;  // goes with its measured line
      theory.name = "theory " + number_text(deep.theory, 2) + ", k = " + std::to_string(blocks);
      std::vector<double> values;
      for (const double lag : deep.lags)
        values.push_back(deep.values.back() * std::pow(lag / deep.lags.back(), deep.theory));
      theory.curve.y = std::move(values);
      theory.dash = Dash::dashed;
      theory.width = 1.2;
      figure.series.emplace_back(std::move(theory));
      figure.series.emplace_back(std::move(line));
    }
    return figure;
  }();
  return {made};
}

}  // namespace afterglow
