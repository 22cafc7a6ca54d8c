// Tails on log-log axes: a straight line is a power law, a curve that bends down an exponential.
#include "views/analyses/influence/influence_figures.h"

#include <algorithm>
#include <cmath>

#include "core/engine/observation/influence_theory.h"
#include "core/figure/axis.h"
#include "core/io/number_text.h"
#include "views/figures/semantic_colours.h"
#include "views/figures/sheet.h"
#include "views/figures/studies/paper_figures.h"
#include "views/plots/families.h"

namespace afterglow {
namespace {

constexpr double lowest_share = 1e-7;  ///< of the largest influence: smaller values are not shown
constexpr double anchor_lag = 4;       ///< theory curves are fitted to the measured one at this lag
constexpr Marker markers[] = {Marker::none,        Marker::circle,        Marker::square, Marker::diamond,
                              Marker::triangle_up, Marker::triangle_down, Marker::hexagon};

Line tail_line(const std::string& name, const InfluenceTail& tail, double scale, double lowest) {
  return lag_line(name, tail.lags, tail.values, scale, lowest);
}

Ink tail_ink(const InfluenceTail& tail) { return tail.kind == "stack" ? Ink(Role::text) : layer_ink(tail.kind); }

Line theory_line(const std::string& name, const InfluenceTail& tail, double lowest, const InfluenceTheory& theory) {
  std::vector<double> x, y;
  std::size_t anchor = 0;
  while (anchor + 1 < tail.lags.size() && tail.lags[anchor] < anchor_lag) ++anchor;
  const double scale = theory.is_absolute ? 1 : tail.values[anchor] / theory.at(tail.lags[anchor]);
  for (const double lag : tail.lags) {
    const double value = scale * theory.at(lag);
    if (!(value >= lowest) || std::isinf(value)) continue;
    x.push_back(lag);
    y.push_back(value);
  }
  return line_through(name, std::move(x), std::move(y), tail_ink(tail), Dash::dashed, 1.3);
}

double max_value(const std::vector<InfluenceTail>& tails) {
  double largest = 0;
  for (const InfluenceTail& tail : tails) {
    for (const double v : tail.values) {
      if (std::isfinite(v)) largest = std::max(largest, v);
    }
  }
  return largest;
}

const RoutingView* routing_of_layer(const InfluenceView& view, int layer) {
  return find_by(view.routing, layer, &RoutingView::layer);
}

std::string power_text(double exponent) {
  return "lag^" + number_text(std::abs(exponent) < 5e-3 ? 0 : exponent, 2) + ", " + std::string(regime_name(exponent));
}

/// The first point at which a tail lies above the bound of theory: by more than rounding for an absolute bound, by a
/// factor of 2 if theory gives only the slope, from the anchor on.
std::string above_text(const InfluenceTail& tail, const InfluenceTheory& theory) {
  const double margin = theory.is_absolute ? 1 + 1e-4 : 2;
  double scale = 1;
  for (std::size_t i = 0; i < tail.lags.size(); ++i) {
    if (!theory.is_absolute && tail.lags[i] < anchor_lag) continue;
    if (!theory.is_absolute && scale == 1) scale = tail.values[i] / theory.at(tail.lags[i]);
    if (!(tail.values[i] > margin * scale * theory.at(tail.lags[i]))) continue;
    const std::string from = " · above it at lag " + number_text(tail.lags[i], 3);
    return theory.is_absolute ? from : from + ": assumption 21 or 22 does not hold";
  }
  return "";
}

/// "1 sessa if uniform: γ = 0.6, lag^−0.4, decaying": layer, assumption, law, and its behaviour over the lag.
std::string theory_text(const InfluenceTail& tail, const InfluenceTheory& theory) {
  switch (theory.law) {
    case TheoryLaw::uniform_feedback:
      return tail.label + " if uniform: γ = " + number_text(theory.parameter, 2) + ", " +
             power_text(theory.parameter - 1);
    case TheoryLaw::feedback_envelope:
      return tail.label +
             (theory.is_absolute ? ", theorem 8: at most " + number_text(theory.at(1), 2) + " " : " envelope: ") +
             power_text(-theory.parameter) + above_text(tail, theory);
    case TheoryLaw::decaying_state:
      return tail.label + " in theory: exp(−" + number_text(theory.parameter, 2) + " lag), forgetting";
    case TheoryLaw::diffuse_attention:
      return tail.label + " if diffuse: 1 / (τ + lag + 1), diluting";
    case TheoryLaw::freeze_envelope:
      return tail.label + ", proposition 9: at most " + number_text(theory.parameter, 3) +
             " e^−Δ, Δ of the slowest head" + above_text(tail, theory);
    case TheoryLaw::diffuse_envelope:
      return tail.label + ", proposition 9: at most " + number_text(theory.parameter, 3) + " / (τ + lag + 1)" +
             above_text(tail, theory);
    case TheoryLaw::deep_feedback:
      return tail.label + ", theorem 12: k = " + std::to_string(theory.blocks) + ", " + power_text(theory.parameter);
    case TheoryLaw::smooth_attention:
      return tail.label + ", proposition 10: at most " + number_text(theory.parameter, 3) + " / (τ + lag + 1)" +
             above_text(tail, theory);
    case TheoryLaw::forced_feedback:
      return tail.label + ", theorem 23: β = " + number_text(theory.parameter, 2) + above_text(tail, theory);
    case TheoryLaw::forced_solve:
      return tail.label + ", theorem 23 with the measured solve: γ_max c₂ = " + number_text(theory.parameter, 3) +
             " ≥ 1, so assumption 16 does not hold" + above_text(tail, theory);
    case TheoryLaw::fading_state:
      return tail.label + ", proposition 4: at most " + number_text(theory.parameter, 3) +
             " e^−Δ, Δ of the slowest head" + above_text(tail, theory);
    case TheoryLaw::none:
      break;
  }
  return "";
}

/// "3.1 to 8.8 times the tail": the range of the ratio between bound and tail, point by point.
template <class Height>
std::string times_text(const InfluenceTail& tail, const Height& height_of) {
  double least = INFINITY, most = 0;
  for (std::size_t i = 0; i < tail.values.size(); ++i) {
    if (!std::isfinite(height_of(i))) continue;
    least = std::min(least, height_of(i) / tail.values[i]);
    most = std::max(most, height_of(i) / tail.values[i]);
  }
  return number_text(least, 2) + " to " + number_text(most, 2) + " times the tail";
}

/// ", dilution 1.2, logits 0.3, own input 2.1": the measured constants of theorem 23, and those that keep growing.
std::string constants_text(const RoutingView& routing) {
  const ForcingConstants constants = forcing_constants(routing);
  std::string text = ", dilution " + number_text(constants.dilution, 2);
  if (!routing.gain.empty())
    text += ", logits " + number_text(constants.logits, 2) + ", own input " + number_text(constants.own, 2);
  const int failing = failing_assumption(constants);
  if (failing == 0) return text;
  const double growth = failing == 21 ? constants.dilution_growth : constants.logits_growth;
  return text + " · assumption " + std::to_string(failing) + " does not hold: its constant is " +
         number_text(growth, 2) + " times larger beyond the first half";
}

void add_law(Figure& figure, const InfluenceTail& tail, double lowest, const InfluenceTheory& theory, Dash dash) {
  if (theory.law == TheoryLaw::none || tail.lags.size() < 2 || tail.is_silent) return;
  figure.series.push_back(styled(theory_line(theory_text(tail, theory), tail, lowest, theory), {.dash = dash}));
}

/// The layer whose envelope is drawn: the chosen one, else the first with audible feedback, else the first whose
/// constants are known. One is enough to read.
int layer_of_envelope(const InfluenceView& view, const Selection& selection) {
  if (routing_of_layer(view, selection.layer)) return selection.layer;
  const auto acts = [&](const RoutingView& routing) {
    return std::ranges::none_of(view.blocks,
                                [&](const InfluenceTail& t) { return t.layer == routing.layer && t.is_silent; });
  };
  auto first = std::ranges::find_if(view.routing, [&](const RoutingView& r) { return !r.gain.empty() && acts(r); });
  if (first == view.routing.end())
    first = std::ranges::find_if(view.routing, [&](const RoutingView& r) { return !r.forcing.empty() && acts(r); });
  return first == view.routing.end() ? -1 : first->layer;
}

/// Theorem 23 or proposition 10 with the measured constants, at its absolute height.
void add_end_to_end(Figure& figure, const InfluenceTail& tail, double lowest, const RoutingView& routing) {
  const InfluenceTheory theory = end_to_end_envelope_of(routing);
  if (theory.law == TheoryLaw::none || tail.lags.size() < 2 || tail.is_silent) return;
  const std::string times = times_text(tail, [&](std::size_t i) { return theory.at(tail.lags[i]); });
  const std::string constants =
      theory.law == TheoryLaw::fading_state ? ", after its convolution" : constants_text(routing);
  figure.series.push_back(
      styled(theory_line(theory_text(tail, theory) + ", " + times + constants, tail, lowest, theory),
             {.dash = Dash::long_dash, .width = 1.8}));
}

/// Theorem 11: the blocks' own tails multiplied along every path, at their absolute height.
void add_path_sum(Figure& figure, const InfluenceView& view, const InfluenceTail& stack, double lowest) {
  if (view.path_sum.size() != stack.lags.size() || view.blocks.size() < 3 || stack.is_silent) return;
  InfluenceTail bound = stack;
  bound.values = view.path_sum;
  figure.series.push_back(styled(tail_line("whole stack, theorem 11: sum over the paths through the blocks, " +
                                               times_text(stack, [&](std::size_t i) { return view.path_sum[i]; }),
                                           bound, 1, lowest),
                                 {.ink = tail_ink(stack), .dash = Dash::long_dash, .width = 1.3}));
}

/// The whole stack has the joint law of its blocks; if a feedback has its own tail, that tail has the feedback's law.
void add_theory(Figure& figure, const InfluenceView& view, const Selection& selection,
                const std::vector<InfluenceTail>& tails, const InfluenceTail& tail, double lowest) {
  if (tail.layer < 0) {
    add_law(figure, tail, lowest, deep_theory_of(view.routing), Dash::dashed);
    return add_path_sum(figure, view, tail, lowest);
  }
  const RoutingView* routing = routing_of_layer(view, tail.layer);
  const bool has_own_feedback = !tail.is_resolvent && std::any_of(tails.begin(), tails.end(), [&](const auto& t) {
    return t.layer == tail.layer && t.is_resolvent;
  });
  if (!routing || has_own_feedback) return;
  const bool is_first = routing->layer == view.routing.front().layer;
  add_law(figure, tail, lowest, theory_of(*routing, view.sources), is_first ? Dash::dashed : Dash::short_dash);
  const bool is_fixed = &tails == &view.fixed;
  if (is_fixed && routing->gain.empty())
    return add_law(figure, tail, lowest, fixed_envelope_of(*routing, view.sources), Dash::long_dash);
  if (tail.layer != layer_of_envelope(view, selection)) return;
  if (!is_fixed) add_end_to_end(figure, tail, lowest, *routing);
  const InfluenceTheory envelope =
      tail.is_resolvent ? fixed_envelope_of(*routing, view.sources) : envelope_of(*routing);
  add_law(figure, tail, lowest, envelope, Dash::long_dash);
  if (envelope.law != TheoryLaw::none || routing->gain.empty()) return;
  Line missing;  // only a name in the legend
  missing.name =
      tail.label + ": no envelope, γ_max c₂ = " + number_text(bounds_of(*routing).mass, 3) + " ≥ 1 (assumptions 6, 7)";
  missing.ink = tail_ink(tail);
  missing.dash = Dash::long_dash;
  figure.series.emplace_back(std::move(missing));
}

/// The interval of the norm that random directions estimate, as two dotted lines around the estimate.
void add_bounds(Figure& figure, const InfluenceTail& tail, double lowest) {
  for (const auto& [name, values] : {std::pair{": at least", &tail.low}, {": at most", &tail.high}}) {
    if (values->size() != tail.lags.size()) continue;
    InfluenceTail bound = tail;
    bound.values = *values;
    figure.series.push_back(styled(tail_line(tail.label + name, bound, 1, lowest),
                                   {.ink = tail_ink(tail), .dash = Dash::dotted, .width = 0.9, .is_quiet = true}));
  }
}

/// With a chosen layer only its theory and bounds, and those of the whole stack.
Figure tails_of(const InfluenceView& view, const Selection& selection, const std::vector<InfluenceTail>& tails,
                Figure figure) {
  const double lowest = std::max(max_value(tails) * lowest_share, 1e-300);
  LinesOfColour lines;
  for (const InfluenceTail& tail : tails) {
    const std::string law = law_text(tail.fit);
    Line line = styled(tail_line(tail.label + (tail.is_silent ? ": no influence yet"
                                               : law.empty()  ? ""
                                                              : ": " + law),
                                 tail, 1, lowest),
                       {.ink = tail_ink(tail), .width = tail.kind == "stack" ? 2.6 : 2});
    line.marker = markers[lines.add(line.ink) % std::size(markers)];
    figure.series.emplace_back(std::move(line));
  }
  const bool is_chosen = std::any_of(tails.begin(), tails.end(),
                                     [&](const auto& t) { return t.layer >= 0 && t.layer == selection.layer; });
  for (const InfluenceTail& tail : tails) {
    if (is_chosen && tail.layer >= 0 && tail.layer != selection.layer) continue;
    add_bounds(figure, tail, lowest);
    add_theory(figure, view, selection, tails, tail, lowest);
  }
  return figure;
}

/// " ± 0.03", half the interval of the slope; empty if it is too narrow to matter.
std::string plus_minus(const LineFit& fit) {
  const double half = 0.5 * (fit.slope_high - fit.slope_low);
  return std::isfinite(half) && half >= 1e-3 * std::abs(fit.slope) ? " ± " + number_text(half, 1) : "";
}

std::string law_text(const InfluenceFit& fit, InfluenceLaw law) {
  if (law == InfluenceLaw::power) return "lag^" + number_text(fit.power.slope, 3) + plus_minus(fit.power);
  if (law != InfluenceLaw::exponential || !std::isfinite(fit.half_life)) return "";
  const std::string text = "half-life " + number_text(fit.half_life, 3);
  const double half = 0.5 * (fit.half_life_high - fit.half_life_low);
  if (!std::isfinite(half)) return text + " (> " + number_text(fit.half_life_low, 2) + ")";
  if (half > 0.5 * fit.half_life)
    return text + " (" + number_text(fit.half_life_low, 2) + " to " + number_text(fit.half_life_high, 2) + ")";
  return half < 1e-3 * fit.half_life ? text : text + " ± " + number_text(half, 1);
}

std::string measured_text(const InfluenceView& view) {
  std::string text = view.sources.size() == 1 ? "source " + std::to_string(view.sources.front())
                                              : "mean of " + std::to_string(view.sources.size()) + " sources";
  text += " · T " + grouped_number(view.tokens) + " · ";
  return text + (view.directions == 0 ? "exact norms"
                                      : std::to_string(view.directions) + " random directions, dotted: 95 % interval");
}

bool has_trained(const RaceView& race) {
  return std::any_of(race.entries.begin(), race.entries.end(),
                     [](const RaceEntry& e) { return e.weights != "initial"; });
}

std::string weights_text(const RaceEntry& entry) {
  return entry.weights == "initial" ? "fresh weights" : entry.weights;
}

/// If layers of the run take part, each name says whether its weights are trained; otherwise the panel's subtitle does.
std::string entry_name(const RaceView& race, const RaceEntry& entry) {
  return entry.tail.label + (has_trained(race) ? ", " + weights_text(entry) : "");
}

std::string one_percent_text(const RaceView& race, const InfluenceTail& tail, bool is_short = false) {
  if (std::isnan(tail.one_percent_lag)) return "no influence";
  if (std::isinf(tail.one_percent_lag))
    return (is_short ? "over 1 % to lag " : "above 1 % up to lag ") + grouped_number(race.tokens - 1 - race.source);
  return (is_short ? "1 % at lag " : "falls to 1 % at lag ") + number_text(tail.one_percent_lag, 3);
}

double first_value(const InfluenceTail& tail) {
  return tail.values.empty() || !(tail.values.front() > 0) ? 1 : tail.values.front();
}

Figure race_axes(const RaceView& race, const std::string& id, const std::string& title) {
  Figure figure = lag_figure(id, title, "share of lag 1");
  double highest = 1;
  for (const RaceEntry& entry : race.entries) {
    for (const double v : entry.tail.values) {
      if (std::isfinite(v)) highest = std::max(highest, v / first_value(entry.tail));
    }
  }
  figure.x.range = Range{1, static_cast<double>(std::max(2, race.tokens - race.source))};
  figure.y.range = Range{1e-6, highest * 2};
  add_level(figure, 0.01, "1 %", Role::dim, Dash::dotted);
  return figure;
}

std::string price_text(const RaceEntry& entry) {
  return bytes_text(entry.state_bytes) + " · " + number_text(entry.step_ms, 2) + " ms";
}

/// "falls to 1 % at lag 41 · 4.2 KB · 0.031 ms · half-life 6.2 ± 0.1": memory always with its cost, so a narrow legend
/// cuts the law first.
std::string race_text(const RaceView& race, const RaceEntry& entry) {
  const std::string law = law_text(entry.tail.fit, entry.tail.fit.law);
  return one_percent_text(race, entry.tail) + " · " + price_text(entry) + (law.empty() ? "" : " · " + law);
}

/// One dash for each entry: entries of one colour differ, and a layer has the same dash in every plot.
std::vector<Marker> race_markers(const RaceView& race) {
  std::vector<Marker> chosen;
  std::size_t place = 0;
  for (const RaceEntry& entry : race.entries) {
    const auto is_taken = [&](Marker marker) {
      for (std::size_t i = 0; i < chosen.size(); ++i) {
        if (chosen[i] == marker && layer_ink(race.entries[i].tail.kind) == layer_ink(entry.tail.kind)) return true;
      }
      return false;
    };
    for (std::size_t tries = 1; tries < std::size(markers) && is_taken(markers[place % std::size(markers)]); ++tries)
      ++place;
    chosen.push_back(markers[place++ % std::size(markers)]);
  }
  return chosen;
}

/// A stable time-invariant feedback falls exponentially (proposition 3).
Line time_invariant_line(const InfluenceTail& tail) {
  const auto values = mapped(tail.lags, [&](double lag) { return std::exp2((1 - lag) / tail.fit.half_life); });
  return styled(lag_line("constant feedback (proposition 3), half-life of " + tail.label, tail.lags, values, 1, 1e-9),
                {.ink = Role::dim, .dash = Dash::dashed});
}

Figure race_overlay(const RaceView& race) {
  Figure figure = race_axes(race, "race_tails", "All tails");
  figure.subtitle = "one input of " + grouped_number(race.tokens) + " tokens, seed " + std::to_string(race.seed) +
                    "; lag at which 1 % is left, state size, time per token, fitted law";
  const std::vector<Marker> marker = race_markers(race);
  for (std::size_t i = 0; i < race.entries.size(); ++i) {
    const RaceEntry& entry = race.entries[i];
    figure.series.push_back(styled(tail_line(entry_name(race, entry) + ": " + race_text(race, entry), entry.tail,
                                             1 / first_value(entry.tail), 1e-9),
                                   {.ink = layer_ink(entry.tail.kind), .marker = marker[i]}));
  }
  const auto fades = [](const RaceEntry& one) { return one.tail.fit.law == InfluenceLaw::exponential; };
  if (const auto first = std::ranges::find_if(race.entries, fades); first != race.entries.end())
    figure.series.push_back(time_invariant_line(first->tail));
  return figure;
}

std::string column_id(const RaceView& race, std::size_t column) {
  return "race_" + std::to_string(column + 1) + "_" + race.entries[column].tail.kind;
}

Figure recall_axes(const RaceView& race, std::string id, std::string title) {
  Figure figure = sheet(std::move(id), std::move(title), "",
                        {.label = "lag",
                         .unit = "tokens",
                         .scale = Scale::log,
                         .range = Range{1, static_cast<double>(std::max(2, race.tokens - race.source))}},
                        {.label = "right answers", .range = Range{0, 1.04}});
  add_level(figure, 0.25, "guessing", Role::dim, Dash::dotted);
  figure.labels = LabelPlacement::legend;
  return figure;
}

Line recall_line(const std::string& name, const RaceEntry& entry) {
  return line_through(name, entry.recall_lags, entry.recall, layer_ink(entry.tail.kind), Dash::solid);
}

Figure race_recall(const RaceView& race) {
  Figure figure = recall_axes(race, "race_recall", "Recall of the planted token");
  figure.subtitle = "which of four tokens was at position " + std::to_string(race.source) + "?";
  const std::vector<Marker> marker = race_markers(race);
  for (std::size_t i = 0; i < race.entries.size(); ++i) {
    const RaceEntry& entry = race.entries[i];
    if (entry.recall.empty()) continue;
    figure.series.push_back(styled(recall_line(entry_name(race, entry), entry), {.marker = marker[i]}));
  }
  return figure;
}

/// The recall of one column, with the others in grey behind it.
Figure recall_column(const RaceView& race, std::size_t column) {
  const RaceEntry& entry = race.entries[column];
  Figure figure = recall_axes(race, column_id(race, column) + "_recall", entry_name(race, entry) + ", recall");
  figure.reference_lines.front().label.clear();  // the large plot has the label
  figure.labels = LabelPlacement::none;
  for (std::size_t i = 0; i < race.entries.size(); ++i) {
    if (i == column || race.entries[i].recall.empty()) continue;
    figure.series.push_back(styled(
        recall_line("behind: " + std::to_string(i + 1) + " " + entry_name(race, race.entries[i]), race.entries[i]),
        {.ink = Role::faint, .width = 0.8, .is_quiet = true}));
  }
  figure.series.push_back(styled(recall_line(entry_name(race, entry), entry), {.width = 2.4}));
  return figure;
}

Figure state_column(const RaceView& race, std::size_t column) {
  const RaceEntry& entry = race.entries[column];
  // The title heads the column; it is short, so that the cost fits next to it.
  Figure figure = sheet(column_id(race, column) + "_state", entry_name(race, entry),
                        price_text(entry) + " per token" + (entry.state_name.empty() ? "" : " · " + entry.state_name),
                        {.label = "column of the state", .integer_ticks = true},
                        {.label = "row of the state", .integer_ticks = true});
  figure.series.push_back(
      signed_map("state", entry.state_rows, entry.state_columns, entry.state, max_magnitude(entry.state)));
  return figure;
}

/// The range of a log axis with room for wide dots: this factor below the smallest and above the largest.
std::optional<Range> room_about(const std::vector<ScatterPoint>& points, double ScatterPoint::*place, double times) {
  if (points.empty()) return std::nullopt;
  const auto [least, most] = std::ranges::minmax(points, {}, place);
  return Range{least.*place / times, most.*place * times};
}

bool is_shown_in_cost(const RaceEntry& entry) { return entry.step_ms > 0 && entry.state_bytes > 0; }

/// The text next to a layer's dot. Equal layers of a model have their dots close together and share one text, at the
/// first of them.
std::string cost_label(const RaceView& race, const RaceEntry& entry) {
  const auto is_alike = [&](const RaceEntry& other) {
    return is_shown_in_cost(other) && other.tail.kind == entry.tail.kind && other.weights == entry.weights &&
           other.state_bytes == entry.state_bytes;
  };
  if (&*std::ranges::find_if(race.entries, is_alike) != &entry) return "";
  const auto count = std::ranges::count_if(race.entries, is_alike);
  return count == 1 ? entry.tail.label : std::to_string(count) + " × " + entry.tail.kind;
}

Figure race_cost(const RaceView& race) {
  Figure figure = sheet("race_cost", "Memory cost", "dot size: lag at 1 %",
                        {.label = "time per token", .unit = "ms", .scale = Scale::log},
                        {.label = "state", .unit = "bytes", .scale = Scale::log}, LabelPlacement::none);
  Scatter scatter{.name = "layers", .marker = Marker::circle};
  for (const RaceEntry& entry : race.entries) {
    if (!is_shown_in_cost(entry)) continue;
    const double reach = std::isfinite(entry.tail.one_percent_lag) ? entry.tail.one_percent_lag : race.tokens;
    scatter.points.push_back({entry.step_ms, static_cast<double>(entry.state_bytes),
                              3 + 1.2 * std::log2(std::max(1.0, reach)), layer_ink(entry.tail.kind), false,
                              entry.tail.label + " " + weights_text(entry), cost_label(race, entry)});
  }
  figure.x.range = room_about(scatter.points, &ScatterPoint::x, 1.7);
  figure.y.range = room_about(scatter.points, &ScatterPoint::y, 3);  // the plot is low
  figure.series.emplace_back(std::move(scatter));
  return figure;
}

/// One column: the layer in its colour, its law dashed, the others in grey behind it.
Figure race_column(const RaceView& race, std::size_t column) {
  const RaceEntry& entry = race.entries[column];
  Figure figure = race_axes(race, column_id(race, column), entry_name(race, entry));
  figure.subtitle = race_text(race, entry);
  figure.labels = LabelPlacement::none;
  for (std::size_t i = 0; i < race.entries.size(); ++i) {
    if (i == column) continue;
    figure.series.push_back(
        styled(tail_line("behind: " + std::to_string(i + 1) + " " + entry_name(race, race.entries[i]),
                         race.entries[i].tail, 1 / first_value(race.entries[i].tail), 1e-9),
               {.ink = Role::faint, .width = 0.8, .is_quiet = true}));
  }
  const InfluenceTail& tail = entry.tail;
  if (tail.fit.law != InfluenceLaw::none) {
    InfluenceTail fitted = tail;
    for (std::size_t i = 0; i < fitted.lags.size(); ++i)
      fitted.values[i] = fitted_influence(tail.fit, tail.fit.law, fitted.lags[i]);
    // Belongs to the tail, whose law is written above the column.
    figure.series.push_back(styled(tail_line("fit: " + law_text(tail.fit), fitted, 1 / first_value(tail), 1e-9),
                                   {.ink = Role::dim, .dash = Dash::dashed, .width = 1.3, .is_quiet = true}));
  }
  figure.series.push_back(styled(tail_line(entry_name(race, entry), tail, 1 / first_value(tail), 1e-9),
                                 {.ink = layer_ink(tail.kind), .width = 2.4}));
  return figure;
}

/// The first layer without an envelope, before all else; empty where theorem 8 applies.
std::string failed_assumption(const Observation& observation) {
  for (const RoutingView& one : observation.influence->routing) {
    if (!one.gain.empty() && envelope_of(one).law == TheoryLaw::none)
      return "theorem 8 does not apply: γ_max c₂ ≥ 1 in " + layer_name(observation, one.layer) + " · ";
  }
  return "";
}

}  // namespace

Figure lag_figure(const std::string& id, const std::string& title, const std::string& quantity, std::string subtitle) {
  return sheet(id, title, std::move(subtitle), {.label = "lag", .unit = "tokens", .scale = Scale::log},
               {.label = quantity, .scale = Scale::log}, LabelPlacement::legend);
}

Line lag_line(std::string name, const std::vector<double>& lags, const std::vector<double>& values, double scale,
              double lowest) {
  std::vector<double> x, y;
  for (std::size_t i = 0; i < std::min(lags.size(), values.size()); ++i) {
    if (!(values[i] * scale >= lowest)) continue;
    x.push_back(lags[i]);
    y.push_back(values[i] * scale);
  }
  return line_through(std::move(name), std::move(x), std::move(y), 0, Dash::solid);
}

std::string law_text(const InfluenceFit& fit) {
  constexpr double clear_preference = 2;  // difference of Akaike's criterion
  std::string text = law_text(fit, fit.law);
  if (text.empty() || fit.preference >= clear_preference) return text;
  const std::string other =
      law_text(fit, fit.law == InfluenceLaw::power ? InfluenceLaw::exponential : InfluenceLaw::power);
  return other.empty() ? text : text + ", or " + other;
}

std::string influence_subtitle(const Observation& observation, const Selection&) {
  if (!observation.influence || observation.influence->blocks.empty())
    return why_not_yet(observation, "Measuring the tails, between the steps of the training or while it pauses.");
  const std::string progress = observation.influence->is_complete ? "" : "measuring · ";
  return failed_assumption(observation) + progress + measured_text(*observation.influence) +
         age_text(observation, observation.influence->step);
}

std::vector<Figure> influence_figures(const Observation& observation, const Selection& selection, CurveStore&) {
  // Other figures wait until the first one has its place.
  if (!observation.influence || observation.influence->blocks.empty()) return {};
  const InfluenceView& view = *observation.influence;
  std::vector<Figure> figures{tails_of(
      view, selection, view.blocks, lag_figure("influence_blocks", "End to end", "|∂y_t/∂x_τ|", measured_text(view)))};
  if (!view.fixed.empty())
    figures.push_back(tails_of(view, selection, view.fixed,
                               lag_figure("influence_fixed", "Routing held fixed", "weight |w_tτ|",
                                          "weights of the tokens, mean over the heads, each layer read as attention")));
  return figures;
}

std::vector<std::string> race_head(const RaceView& race, const RaceEntry& entry) {
  std::vector<std::string> lines{entry.tail.label};
  if (has_trained(race)) lines.push_back(weights_text(entry));
  const std::string law = law_text(entry.tail.fit);
  const std::size_t other = std::min(law.find(", or "), law.size());
  lines.insert(lines.end(), {bytes_text(entry.state_bytes), number_text(entry.step_ms, 2) + " ms per token",
                             one_percent_text(race, entry.tail, true), law.substr(0, other)});
  if (other < law.size()) lines.push_back(law.substr(other + 2));
  return lines;
}

std::string race_subtitle(const Observation& observation, const Selection&) {
  const RaceView* race = observation.race.get();
  if (!race) return why_not_yet(observation, "Measuring all layers on one input, one column after the other.");
  const auto arrived = static_cast<int>(race->entries.size());
  std::string progress = arrived == 0 ? "Measuring " : "measuring ";  // a sentence of its own, or behind the title
  progress += std::to_string(race->contestants) + " layers: " + std::to_string(arrived) + " done · ";
  if (arrived == race->contestants) progress.clear();
  std::string without;
  for (const std::string& layer : race->left_out) without += (without.empty() ? " · without " : ", ") + layer;
  if (!without.empty()) without += " (too wide for this device)";
  return progress + "planted token: " + std::to_string(race->source) + " of " + grouped_number(race->tokens) +
         " · width " + std::to_string(race->width) + without + " · seed " + std::to_string(race->seed) +
         (has_trained(*race) ? " · the run's layers are trained, the others have fresh weights" : " · fresh weights");
}

std::vector<Figure> race_figures(const Observation& observation, const Selection&, CurveStore&) {
  const RaceView* race = observation.race.get();
  if (!race || race->entries.empty()) return {};
  std::vector<Figure> figures{race_overlay(*race), race_recall(*race), race_cost(*race)};
  for (std::size_t i = 0; i < race->entries.size(); ++i) {
    figures.push_back(state_column(*race, i));
    figures.push_back(race_column(*race, i));
    figures.push_back(recall_column(*race, i));
  }
  return figures;
}

namespace {

constexpr PlotRow influence_rows[] = {
    {"influence", set_of(Analysis::influence), LayerTrait::tokens, influence_subtitle, influence_figures},
    {"race", set_of(Analysis::race), LayerTrait::tokens, race_subtitle, race_figures},
    {"routing", set_of(Analysis::influence), LayerTrait::tokens, routing_subtitle, routing_figures},
    {"position_code", set_of(Analysis::influence), LayerTrait::feedback, position_code_subtitle, position_code_figures},
    {"deep_profiles", set_of(Analysis::influence), LayerTrait::feedback, deep_profiles_subtitle, deep_profiles_figures},
    {"selective_retrieval", set_of(Analysis::retrieval), LayerTrait::feedback, selective_retrieval_subtitle,
     selective_retrieval_figures},
    {"costs", set_of(Analysis::costs), {}, costs_subtitle, costs_figures},
};

}  // namespace

PlotFamily influence_plots() { return {influence_rows, {}}; }

}  // namespace afterglow
