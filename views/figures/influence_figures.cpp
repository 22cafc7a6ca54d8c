// Tails on log-log axes: a straight line is a power law, a curve that bends down an exponential.
#include "views/figures/influence_figures.h"

#include <algorithm>
#include <cmath>

#include "core/engine/influence_theory.h"
#include "core/figure/axis.h"
#include "views/figures/meaning.h"

namespace afterglow {

namespace {

constexpr double lowest_share = 1e-7;  ///< of the largest influence: what lies below is no longer shown
constexpr double anchor_lag = 4;       ///< theory curves meet the measured one here
constexpr Marker markers[] = {Marker::none,        Marker::circle,        Marker::square, Marker::diamond,
                              Marker::triangle_up, Marker::triangle_down, Marker::hexagon};

std::string age_text(const Observation& observation, std::int64_t step) {
  return step == observation.step ? "" : " · as of step " + grouped_number(step);
}

Figure tail_figure(const std::string& id, const std::string& title, const std::string& quantity) {
  Figure figure;
  figure.id = id;
  figure.title = title;
  figure.x.label = "lag";
  figure.x.unit = "tokens";
  figure.x.scale = figure.y.scale = Scale::log;
  figure.y.label = quantity;
  figure.labels = LabelPlacement::legend;
  return figure;
}

/// Values below what can be shown leave the curve instead of pressing all others flat.
Line tail_line(const std::string& name, const InfluenceTail& tail, double scale, double lowest) {
  std::vector<double> x, y;
  for (std::size_t i = 0; i < tail.lags.size() && i < tail.values.size(); ++i) {
    if (!(tail.values[i] * scale >= lowest)) continue;
    x.push_back(tail.lags[i]);
    y.push_back(tail.values[i] * scale);
  }
  Line line;
  line.name = name;
  line.curve.x = std::move(x);
  line.curve.y = std::move(y);
  line.dash = Dash::solid;
  return line;
}

Line theory_line(const std::string& name, const InfluenceTail& tail, double lowest, const InfluenceTheory& theory) {
  std::vector<double> x, y;
  std::size_t anchor = 0;
  while (anchor + 1 < tail.lags.size() && tail.lags[anchor] < anchor_lag) ++anchor;
  for (const double lag : tail.lags) {
    const double value = tail.values[anchor] * theory.at(lag) / theory.at(tail.lags[anchor]);
    if (!(value >= lowest)) continue;
    x.push_back(lag);
    y.push_back(value);
  }
  Line line;
  line.name = name;
  line.curve.x = std::move(x);
  line.curve.y = std::move(y);
  line.dash = Dash::dashed;
  line.width = 1.3;
  line.ink = layer_ink(tail.kind);
  return line;
}

double largest_value(const std::vector<InfluenceTail>& tails) {
  double largest = 0;
  for (const InfluenceTail& tail : tails) {
    for (const double v : tail.values) {
      if (std::isfinite(v)) largest = std::max(largest, v);
    }
  }
  return largest;
}

const RoutingView* routing_of_layer(const InfluenceView& view, int layer) {
  for (const RoutingView& routing : view.routing) {
    if (routing.layer == layer) return &routing;
  }
  return nullptr;
}

std::string theory_text(const InfluenceTheory& theory) {
  if (theory.law == TheoryLaw::uniform_feedback) return "uniform routing, γ = " + number_text(theory.parameter, 2);
  if (theory.law == TheoryLaw::decaying_state) return "exp(−" + number_text(theory.parameter, 2) + " lag)";
  return "diffuse: 1 / (τ + lag + 1)";
}

void add_theory(Figure& figure, const InfluenceView& view, const InfluenceTail& tail, double lowest) {
  const RoutingView* routing = tail.layer >= 0 ? routing_of_layer(view, tail.layer) : nullptr;
  if (!routing || tail.lags.size() < 2 || tail.is_silent) return;
  const InfluenceTheory theory = theory_of(*routing, view.sources);
  if (theory.law == TheoryLaw::none) return;
  figure.series.emplace_back(theory_line(theory_text(theory) + " (" + tail.label + ")", tail, lowest, theory));
}

Figure tails_of(const Observation& observation, const std::vector<InfluenceTail>& tails, Figure figure) {
  const InfluenceView& view = *observation.influence;
  const double lowest = std::max(largest_value(tails) * lowest_share, 1e-300);
  std::vector<std::string> seen;
  for (const InfluenceTail& tail : tails) {
    const std::string law = law_text(tail.fit);
    Line line = tail_line(tail.label + (tail.is_silent ? ": no influence yet"
                                        : law.empty()  ? ""
                                                       : ": " + law),
                          tail, 1, lowest);
    const bool is_stack = tail.kind == "stack";
    line.ink = is_stack ? Ink(Role::text) : layer_ink(tail.kind);
    line.width = is_stack ? 2.6 : 2;
    const auto earlier = std::count(seen.begin(), seen.end(), tail.kind);
    line.marker = markers[static_cast<std::size_t>(earlier) % std::size(markers)];
    seen.push_back(tail.kind);
    figure.series.emplace_back(std::move(line));
  }
  for (const InfluenceTail& tail : tails) add_theory(figure, view, tail, lowest);
  return figure;
}

std::string measured_text(const InfluenceView& view) {
  std::string text = view.sources.size() == 1 ? "source " + std::to_string(view.sources.front())
                                              : "mean of " + std::to_string(view.sources.size()) + " sources";
  text += " · T " + grouped_number(view.tokens) + " · ";
  return text + (view.directions == 0 ? "exact norms" : std::to_string(view.directions) + " random cotangents");
}

std::string entry_name(const RaceView& race, const RaceEntry& entry) {
  const bool has_both =
      std::any_of(race.entries.begin(), race.entries.end(), [](const RaceEntry& e) { return e.weights != "initial"; });
  return entry.tail.label + (has_both && entry.weights != "initial" ? ", " + entry.weights : "");
}

std::string one_percent_text(const RaceView& race, const InfluenceTail& tail) {
  if (std::isnan(tail.one_percent_lag)) return "no influence";
  if (std::isinf(tail.one_percent_lag)) return "1 % > " + grouped_number(race.tokens - 1 - race.source);
  return "1 % at " + number_text(tail.one_percent_lag, 3);
}

double first_value(const InfluenceTail& tail) {
  return tail.values.empty() || !(tail.values.front() > 0) ? 1 : tail.values.front();
}

Figure race_axes(const RaceView& race, const std::string& id, const std::string& title) {
  Figure figure = tail_figure(id, title, "share of lag 1");
  double highest = 1;
  for (const RaceEntry& entry : race.entries) {
    for (const double v : entry.tail.values) {
      if (std::isfinite(v)) highest = std::max(highest, v / first_value(entry.tail));
    }
  }
  figure.x.range = Range{1, static_cast<double>(std::max(2, race.tokens - race.source))};
  figure.y.range = Range{1e-6, highest * 2};
  figure.reference_lines.push_back({Orientation::horizontal, 0.01, "1 %", Role::dim, Dash::dotted});
  return figure;
}

Figure race_overlay(const RaceView& race) {
  Figure figure = race_axes(race, "race_tails", "All tails");
  figure.subtitle = "one input of " + grouped_number(race.tokens) + " tokens, seed " + std::to_string(race.seed);
  std::size_t place = 0;
  for (const RaceEntry& entry : race.entries) {
    Line line = tail_line(entry_name(race, entry) + ": " + one_percent_text(race, entry.tail), entry.tail,
                          1 / first_value(entry.tail), 1e-9);
    line.ink = layer_ink(entry.tail.kind);
    line.marker = markers[place++ % std::size(markers)];
    figure.series.emplace_back(std::move(line));
  }
  return figure;
}

std::string column_id(const RaceView& race, std::size_t column) {
  return "race_" + std::to_string(column + 1) + "_" + race.entries[column].tail.kind;
}

/// "4.2 kB · 0.031 ms per token"
std::string price_text(const RaceEntry& entry) {
  return bytes_text(entry.state_bytes) + " · " + number_text(entry.step_ms, 2) + " ms per token";
}

Figure recall_axes(const RaceView& race, std::string id, std::string title) {
  Figure figure;
  figure.id = std::move(id);
  figure.title = std::move(title);
  figure.x.label = "lag";
  figure.x.unit = "tokens";
  figure.x.scale = Scale::log;
  figure.x.range = Range{1, static_cast<double>(std::max(2, race.tokens - race.source))};
  figure.y.label = "right answers";
  figure.y.range = Range{0, 1.04};
  figure.reference_lines.push_back({Orientation::horizontal, 0.25, "guessing", Role::dim, Dash::dotted});
  figure.labels = LabelPlacement::legend;
  return figure;
}

Line recall_line(const std::string& name, const RaceEntry& entry) {
  Line line;
  line.name = name;
  line.curve.x = entry.recall_lags;
  line.curve.y = entry.recall;
  line.dash = Dash::solid;
  line.ink = layer_ink(entry.tail.kind);
  return line;
}

Figure race_recall(const RaceView& race) {
  Figure figure = recall_axes(race, "race_recall", "Recall of the planted token");
  figure.subtitle = "which of four tokens stood at " + std::to_string(race.source) + "?";
  std::size_t place = 0;
  for (const RaceEntry& entry : race.entries) {
    if (entry.recall.empty()) continue;
    Line line = recall_line(entry_name(race, entry), entry);
    line.marker = markers[place++ % std::size(markers)];
    figure.series.emplace_back(std::move(line));
  }
  return figure;
}

/// One column's own recall, the others behind it in grey.
Figure recall_column(const RaceView& race, std::size_t column) {
  const RaceEntry& entry = race.entries[column];
  Figure figure = recall_axes(race, column_id(race, column) + "_recall", entry_name(race, entry) + ", recall");
  figure.labels = LabelPlacement::none;
  for (std::size_t i = 0; i < race.entries.size(); ++i) {
    if (i == column || race.entries[i].recall.empty()) continue;
    Line other =
        recall_line("behind: " + std::to_string(i + 1) + " " + entry_name(race, race.entries[i]), race.entries[i]);
    other.ink = Role::faint;
    other.width = 0.8;
    figure.series.emplace_back(std::move(other));
  }
  Line own = recall_line(entry_name(race, entry), entry);
  own.width = 2.4;
  figure.series.emplace_back(std::move(own));
  return figure;
}

Figure state_column(const RaceView& race, std::size_t column) {
  const RaceEntry& entry = race.entries[column];
  Figure figure;
  figure.id = column_id(race, column) + "_state";
  figure.title = entry_name(race, entry);  // heads the column; short, so that the price finds room beside it
  figure.subtitle = price_text(entry) + (entry.state_name.empty() ? "" : " · " + entry.state_name);
  figure.x.label = "column";
  figure.y.label = "row";
  figure.x.integer_ticks = figure.y.integer_ticks = true;
  double reach = 0;
  for (const float v : entry.state) {
    if (std::isfinite(v)) reach = std::max(reach, std::abs(static_cast<double>(v)));
  }
  HeatMap map;
  map.name = "state";
  map.rows = entry.state_rows;
  map.cols = entry.state_columns;
  map.map = ColourMap::diverging;
  map.value.range = Range{-colour_reach(reach), colour_reach(reach)};
  map.cells = std::vector<double>(entry.state.begin(), entry.state.end());
  figure.series.emplace_back(std::move(map));
  return figure;
}

Figure race_cost(const RaceView& race) {
  Figure figure;
  figure.id = "race_cost";
  figure.title = "Price of memory";
  figure.subtitle = "dots are larger where 1 % is later";
  figure.x.label = "time of one token";
  figure.x.unit = "ms";
  figure.y.label = "state";
  figure.y.unit = "bytes";
  figure.x.scale = figure.y.scale = Scale::log;
  figure.labels = LabelPlacement::none;
  Scatter scatter;
  scatter.name = "layers";
  scatter.marker = Marker::circle;
  for (const RaceEntry& entry : race.entries) {
    if (!(entry.step_ms > 0) || entry.state_bytes <= 0) continue;
    const double reach = std::isfinite(entry.tail.one_percent_lag) ? entry.tail.one_percent_lag : race.tokens;
    scatter.points.push_back({entry.step_ms, static_cast<double>(entry.state_bytes),
                              3 + 1.2 * std::log2(std::max(1.0, reach)), layer_ink(entry.tail.kind), false,
                              entry.tail.label + " " + entry.weights, entry_name(race, entry)});
  }
  figure.series.emplace_back(std::move(scatter));
  return figure;
}

/// One column: the layer in its colour, its law dashed, the others behind it in grey.
Figure race_column(const RaceView& race, std::size_t column) {
  const RaceEntry& entry = race.entries[column];
  Figure figure = race_axes(race, column_id(race, column), entry_name(race, entry));
  const std::string law = law_text(entry.tail.fit);
  figure.subtitle = (law.empty() ? "" : law + " · ") + one_percent_text(race, entry.tail) + " · " + price_text(entry);
  figure.labels = LabelPlacement::none;
  for (std::size_t i = 0; i < race.entries.size(); ++i) {
    if (i == column) continue;
    Line other = tail_line("behind: " + std::to_string(i + 1) + " " + entry_name(race, race.entries[i]),
                           race.entries[i].tail, 1 / first_value(race.entries[i].tail), 1e-9);
    other.ink = Role::faint;
    other.width = 0.8;
    figure.series.emplace_back(std::move(other));
  }
  const InfluenceTail& tail = entry.tail;
  if (tail.fit.law != InfluenceLaw::none) {
    InfluenceTail fitted = tail;
    for (std::size_t i = 0; i < fitted.lags.size(); ++i)
      fitted.values[i] = fitted_influence(tail.fit, tail.fit.law, fitted.lags[i]);
    Line fit = tail_line("fit: " + law, fitted, 1 / first_value(tail), 1e-9);
    fit.ink = Role::dim;
    fit.dash = Dash::dashed;
    fit.width = 1.3;
    figure.series.emplace_back(std::move(fit));
  }
  Line own = tail_line(entry_name(race, entry), tail, 1 / first_value(tail), 1e-9);
  own.ink = layer_ink(tail.kind);
  own.width = 2.4;
  figure.series.emplace_back(std::move(own));
  return figure;
}

}  // namespace

std::string law_text(const InfluenceFit& fit) {
  if (fit.law == InfluenceLaw::power) {
    const double half = 0.5 * (fit.power.slope_high - fit.power.slope_low);
    const bool is_worth_saying = std::isfinite(half) && half >= 1e-3 * std::abs(fit.power.slope);
    return "lag^" + number_text(fit.power.slope, 3) + (is_worth_saying ? " ± " + number_text(half, 1) : std::string());
  }
  if (fit.law == InfluenceLaw::exponential && std::isfinite(fit.half_life))
    return "half-life " + number_text(fit.half_life, 3);
  return "";
}

std::string influence_subtitle(const Observation& observation, const Selection&) {
  if (!observation.influence) return "measured as soon as training rests, or in its spare time";
  return measured_text(*observation.influence) + age_text(observation, observation.influence->step);
}

std::vector<Figure> influence_figures(const Observation& observation, const Selection&, CurveStore&) {
  if (!observation.influence) return {};
  const InfluenceView& view = *observation.influence;
  std::vector<Figure> figures;
  if (!view.blocks.empty()) {
    Figure figure = tail_figure("influence_blocks", "End to end", "|∂y_t/∂x_τ|");
    figure.subtitle = measured_text(view);
    figures.push_back(tails_of(observation, view.blocks, std::move(figure)));
  }
  if (!view.fixed.empty()) {
    Figure figure = tail_figure("influence_fixed", "Routing held fixed", "|w_tτ|, mean of the heads");
    figure.subtitle = "weights of the tokens, as if every layer were attention";
    figures.push_back(tails_of(observation, view.fixed, std::move(figure)));
  }
  return figures;
}

std::string race_subtitle(const Observation& observation, const Selection&) {
  const RaceView* race = observation.influence ? observation.influence->race.get() : nullptr;
  if (!race || race->entries.empty()) return "all layers on one input: columns come one by one";
  return "planted at token " + std::to_string(race->source) + " of " + grouped_number(race->tokens) + " · d " +
         std::to_string(race->width) + " · seed " + std::to_string(race->seed);
}

std::vector<Figure> race_figures(const Observation& observation, const Selection&, CurveStore&) {
  const RaceView* race = observation.influence ? observation.influence->race.get() : nullptr;
  if (!race || race->entries.empty()) return {};
  std::vector<Figure> figures{race_overlay(*race), race_recall(*race), race_cost(*race)};
  for (std::size_t i = 0; i < race->entries.size(); ++i) {
    figures.push_back(state_column(*race, i));
    figures.push_back(race_column(*race, i));
    figures.push_back(recall_column(*race, i));
  }
  return figures;
}

}  // namespace afterglow
