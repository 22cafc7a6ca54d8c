// Lines of measurements and bounds, from the plain numbers of a TheoryView.
#include "views/analyses/theory/theory_figures.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "core/engine/analyses/theory/theory_view.h"
#include "core/figure/axis.h"
#include "core/io/named.h"
#include "core/io/number_text.h"
#include "views/figures/semantic_colours.h"
#include "views/figures/sheet.h"
#include "views/plots/families.h"

namespace afterglow {
namespace {

std::string place_of(const Observation& observation, const TheoryView& theory) {
  return layer_name(observation, theory.layer) + " · head " + std::to_string(theory.head);
}

Line curve(std::string name, std::vector<double> x, std::vector<double> y, Ink ink, Dash dash = Dash::solid) {
  return line_through(std::move(name), std::move(x), std::move(y), ink, dash, dash == Dash::solid ? 2.2 : 1.5);
}

/// Over the places of the values, counted from `first`.
Line counted_curve(std::string name, double first, const std::vector<double>& y, Ink ink, Dash dash = Dash::solid) {
  return curve(std::move(name), counted(y.size(), first), y, ink, dash);
}

Figure over_noise(const char* id, const char* title, std::string subtitle, const char* y) {
  return sheet(id, title, std::move(subtitle), {.label = "relative noise in G and M", .scale = Scale::log},
               {.label = y, .scale = Scale::log});
}

Figure over_powers(const char* id, const char* title, std::string subtitle, const char* y, int power) {
  Figure figure = sheet(id, title, std::move(subtitle), {.label = "power K", .integer_ticks = true}, {y});
  add_moment(figure, static_cast<double>(power), "K = " + std::to_string(power), Role::accent, Dash::dotted);
  return figure;
}

Figure norms_figure(const TheoryView& t) {
  Figure figure = over_powers("filter_norms", "Contraction",
                              t.gamma > 1 ? "only γ = " + number_text(t.gamma, 3) + " amplifies" : "no power grows",
                              "spectral norm", t.power);
  figure.series.emplace_back(counted_curve("|Â^K|", 0, t.powers.norms, 2));
  figure.series.emplace_back(counted_curve("|A^K| with γ", 0, t.powers.restored, 0));
  figure.series.emplace_back(counted_curve("γ^K", 0, t.powers.paper_bounds, Role::warning, Dash::dashed));
  figure.series.emplace_back(counted_curve("(γ|Â|)^K", 0, t.powers.bounds, Role::dim, Dash::dotted));
  return figure;
}

Figure excess_figure(const TheoryView& t) {
  Figure figure = over_powers("filter_excess_risk", "Excess risk", "what the filter adds to the ridge loss",
                              "excess of the ridge loss", t.power);
  figure.series.emplace_back(counted_curve("|F(A^K − I)|²", 0, t.risk.excess, 0));
  figure.series.emplace_back(counted_curve("|F(ηA^K − I)|²", 0, t.risk.with_gain, 2));
  figure.y.scale = Scale::symlog;  // the level lies far below the largest powers, and K = 0 has none
  add_level(figure, t.risk.explained, "cancels the regression", Role::warning, Dash::dashed);
  return figure;
}

Figure regime_figure(const TheoryView& t) {
  std::string subtitle =
      std::to_string(t.regime.persistent) + " persistent modes, " + std::to_string(t.regime.transient) + " transient";
  if (!t.regime.applies) subtitle += " · ρ ≥ 1: the theorem does not apply";
  Figure figure =
      over_powers("filter_helps", "When K > 0 helps", subtitle, "distance from the persistent answer", t.power);
  figure.series.emplace_back(counted_curve("measured", 0, t.regime_error, 0));
  figure.series.emplace_back(counted_curve("bound I.11", 0, t.regime_bound, Role::warning, Dash::dashed));
  if (!t.regime_error.empty()) add_level(figure, t.regime_error.front(), "K = 0", Role::faint, Dash::dotted);
  return figure;
}

const LineStyle with_dots{.marker = Marker::circle};

Figure singular_values_figure(const TheoryView& t, std::string place) {
  const SoftmaxTheory& softmax = t.softmax;
  std::string subtitle = std::move(place) + " · rank " + std::to_string(t.jacobian.rank);
  if (!softmax.last.empty()) subtitle += ", softmax " + std::to_string(softmax.rank);
  Figure figure =
      sheet("query_jacobian", "Query Jacobian", std::move(subtitle), {.label = "singular value", .integer_ticks = true},
            {.label = "|∂y/∂q| along it", .scale = Scale::log});
  figure.series.emplace_back(
      styled(counted_curve("SKA", 1, t.jacobian.singular_values, layer_ink(LayerTrait::koopman_heads)), with_dots));
  // Beyond its rank there is only rounding.
  const std::vector<double> last(softmax.last.begin(),
                                 softmax.last.begin() + std::min(softmax.rank, int(softmax.last.size())));
  if (!last.empty())
    figure.series.emplace_back(
        styled(counted_curve("softmax, last token", 1, last, layer_ink(LayerTrait::token_shares)), with_dots));
  add_level(figure, t.jacobian.bound, "bound J.4", Role::warning, Dash::dashed);
  add_level(figure, t.jacobian.sharp_bound, "tightened bound", Role::dim, Dash::dotted);
  if (t.jacobian.lower_bound > 0)
    add_level(figure, t.jacobian.lower_bound, "lower bound J.6", Role::warning, Dash::short_dash);
  return figure;
}

Line sorted_curve(std::string name, const std::vector<double>& x, const std::vector<double>& values, Ink ink,
                  Dash dash) {
  using Point = std::pair<double, double>;
  std::vector<Point> points;
  for (std::size_t i = 0; i < std::min(x.size(), values.size()); ++i) points.emplace_back(x[i], values[i]);
  std::sort(points.begin(), points.end());
  return curve(std::move(name), mapped(points, &Point::first), mapped(points, &Point::second), ink, dash);
}

/// A dot for each query: the derivative that remains when one token holds the share m of the weights.
Figure saturation_figure(const TheoryView& t) {
  const SoftmaxTheory& softmax = t.softmax;
  std::string subtitle = "one dot for each query";
  if (const std::string linearity = linearity_text(t); !linearity.empty()) subtitle += " · " + linearity;
  Figure figure =
      sheet("query_jacobian_softmax", "Softmax saturates", std::move(subtitle),
            {.label = "largest weight m", .range = Range{0, 1}}, {.label = "norm |∂y/∂q|", .scale = Scale::log});
  Scatter dots{.name = "softmax", .marker = Marker::circle};
  for (std::size_t i = 0; i < std::min(softmax.norm.size(), softmax.max_weight.size()); ++i)
    dots.points.push_back({softmax.max_weight[i], softmax.norm[i], 3, layer_ink(LayerTrait::token_shares)});
  figure.series.emplace_back(std::move(dots));
  figure.series.emplace_back(
      sorted_curve("bound J.3", softmax.max_weight, softmax.saturation_bound, Role::warning, Dash::dashed));
  figure.series.emplace_back(
      sorted_curve("tightened bound", softmax.max_weight, softmax.sharp_bound, Role::dim, Dash::dotted));
  add_level(figure, softmax.bound, "bound J.2", Role::warning, Dash::short_dash);
  add_level(figure, t.jacobian.singular_values.front(), "SKA, every query", layer_ink(LayerTrait::koopman_heads),
            Dash::solid);
  return figure;
}

}  // namespace

std::string theory_subtitle(const Observation& observation, const Selection&) {
  const TheoryView* theory = observation.theory.get();
  if (!theory) return why_no_layer(observation, LayerTrait::koopman_heads);
  return place_of(observation, *theory) + " · solid: measured, dashed: bound" + age_text(observation, theory->step);
}

std::string gradient_step_text(const TheoryView& theory) {
  return std::isfinite(theory.gradient_step_gap) ? "|C q − B_1 q| ≤ " + number_text(theory.gradient_step_gap, 2) : "";
}

std::string linearity_text(const TheoryView& theory) {
  if (!std::isfinite(theory.linearity_gap) || !std::isfinite(theory.softmax.linearity_gap)) return "";
  return "deviation from linear: softmax " + number_text(theory.softmax.linearity_gap, 2) + ", SKA " +
         number_text(theory.linearity_gap, 2);
}

std::vector<Figure> perturbation_figures(const Observation& observation, const Selection&, CurveStore&) {
  const TheoryView* t = observation.theory.get();
  if (!t || t->noise.empty()) return {};
  Figure whole =
      over_noise("perturbation_operator", "Operator under noise", place_of(observation, *t), "change |Â − A|");
  whole.series.emplace_back(curve("measured", t->noise, t->operator_change, 0));
  whole.series.emplace_back(curve("bound C.1", t->noise, t->operator_bound, Role::warning, Dash::dashed));
  whole.series.emplace_back(curve("bound without κ", t->noise, t->sharp_operator_bound, 2, Dash::dotted));
  Figure modes = over_noise("perturbation_eigenvalues", "Eigenvalues under noise",
                            "κ(V) = " + number_text(t->eigenvector_condition, 3), "largest change of an eigenvalue");
  modes.series.emplace_back(curve("measured", t->noise, t->eigenvalue_change, 0));
  modes.series.emplace_back(curve("Bauer-Fike C.3", t->noise, t->bauer_fike, Role::warning, Dash::dashed));
  modes.series.emplace_back(curve("C.4", t->noise, t->combined_bound, 3, Dash::dash_dot));
  modes.series.emplace_back(curve("matrix-pencil bound", t->noise, t->pencil_bound, 2, Dash::dotted));
  return {whole, modes};
}

std::vector<Figure> filter_theory_figures(const Observation& observation, const Selection&, CurveStore&) {
  const TheoryView* t = observation.theory.get();
  if (!t || t->powers.norms.empty()) return {};
  std::vector<Figure> figures{norms_figure(*t), excess_figure(*t)};
  if (!t->regime_error.empty()) figures.push_back(regime_figure(*t));
  return figures;
}

std::vector<Figure> linear_gap_figures(const Observation& observation, const Selection&, CurveStore&) {
  const TheoryView* t = observation.theory.get();
  if (!t || t->gap.empty()) return {};
  std::string subtitle = "κ = " + number_text(t->kappa, 3);
  if (const std::string step = gradient_step_text(*t); !step.empty()) subtitle += " · " + step;
  Figure figure = sheet("linear_gap", "Linear attention's gap", std::move(subtitle),
                        {.label = "query token", .integer_ticks = true},
                        {.label = "distance from ridge retrieval", .scale = Scale::log});
  figure.series.emplace_back(counted_curve("best factor", t->first_query, t->gap, 0));
  figure.series.emplace_back(counted_curve("factor a*", t->first_query, t->shared_gap, 2));
  figure.series.emplace_back(counted_curve("bound I.6", t->first_query, t->gap_bound, Role::warning, Dash::dashed));
  return {figure};
}

std::vector<Figure> query_jacobian_figures(const Observation& observation, const Selection&, CurveStore&) {
  const TheoryView* t = observation.theory.get();
  if (!t || t->jacobian.singular_values.empty()) return {};
  std::vector<Figure> figures{singular_values_figure(*t, place_of(observation, *t))};
  if (!t->softmax.norm.empty()) figures.push_back(saturation_figure(*t));
  return figures;
}

std::vector<Figure> state_size_figures(const Observation& observation, const Selection&, CurveStore&) {
  const TheoryView* t = observation.theory.get();
  if (!t || t->rank < 1) return {};
  std::vector<double> tokens, state, grown;
  for (double length = 1; length <= 1 << 20; length *= 2) {
    tokens.push_back(length);
    state.push_back(t->state_bytes);
    grown.push_back(t->cache_bytes * length);
  }
  Figure figure =
      sheet("state_size", "State size", "all SKA layers, one sequence, float32",
            {.label = "tokens", .scale = Scale::log}, {.label = "bytes kept", .unit = "B", .scale = Scale::log});
  figure.series.emplace_back(curve("SKA state", tokens, state, layer_ink(LayerTrait::koopman_heads)));
  figure.series.emplace_back(curve("key-value cache", tokens, grown, layer_ink(LayerTrait::token_shares)));
  if (std::isfinite(t->crossing) && t->crossing > 0)
    add_moment(figure, t->crossing, number_text(std::ceil(t->crossing), 4) + " tokens", Role::accent, Dash::dotted);
  return {figure};
}

namespace {

/// One tick for each layer; if they are too dense, the drawing labels every second, third, ..
std::vector<AxisTick> layer_ticks(const Observation& observation, const DepthView& depth, bool with_head) {
  std::vector<AxisTick> ticks;
  const std::size_t count = depth.layers.size();
  for (std::size_t l = 0; l < count; ++l)
    ticks.push_back({static_cast<double>(l), layer_name(observation, depth.layers[l])});
  if (with_head) ticks.push_back({static_cast<double>(count), "head"});
  return ticks;
}

Line over_depth(std::string name, const std::vector<double>& values, Ink ink, Dash dash) {
  std::vector<double> x, y;
  for (std::size_t l = 0; l < values.size(); ++l) {
    if (values[l] == 0) continue;  // a log axis cannot show a floor of zero
    x.push_back(static_cast<double>(l));
    y.push_back(values[l]);
  }
  Line line = curve(std::move(name), std::move(x), std::move(y), ink, dash);
  return dash == Dash::solid ? styled(std::move(line), with_dots) : line;
}

double highest_of(const std::vector<double>& values) {
  double highest = 0;
  for (const double value : values) highest = std::max(highest, std::isfinite(value) ? value : 0);
  return highest;
}

/// Closed forms of many branches multiply to huge numbers: above a million times the other values the line ends, so
/// that the measurement keeps its shape.
std::optional<Range> limited_range(const DepthView& depth) {
  constexpr double most = 1e6;
  double low = INFINITY, high = 0;
  for (const auto* values : {&depth.gradient, &depth.residual_bound, &depth.residual_floor, &depth.branch_product}) {
    high = std::max(high, highest_of(*values));
    for (const double value : *values) low = value > 0 ? std::min(low, value) : low;
  }
  if (high == 0 || highest_of(depth.closed_product) <= most * high) return std::nullopt;
  return Range{0.5 * low, most * high};
}

Figure gradient_figure(const Observation& observation, const DepthView& depth) {
  Figure figure = sheet("gradient_depth", "Gradient norm by depth",
                        "loss of the inspected sequence, from the head down to the first layer",
                        {.label = "layer input", .ticks = layer_ticks(observation, depth, true)},
                        {.label = "gradient norm |∂L/∂h|", .scale = Scale::log});
  figure.series.emplace_back(over_depth("measured", depth.gradient, 0, Dash::solid));
  figure.series.emplace_back(over_depth("bound", depth.residual_bound, Role::warning, Dash::dashed));
  figure.series.emplace_back(over_depth("floor", depth.residual_floor, Role::dim, Dash::short_dash));
  figure.series.emplace_back(over_depth("product of measured |J|", depth.branch_product, 2, Dash::dotted));
  figure.series.emplace_back(over_depth("J.9 in closed form", depth.closed_product, 3, Dash::dash_dot));
  figure.y.range = limited_range(depth);
  return figure;
}

/// A mark at each branch with a closed form; nothing if no branch has one.
void add_closed_forms(Figure& figure, const char* name, const std::vector<double>& bounds, Marker marker, Ink ink) {
  Scatter closed{.name = name, .marker = marker};
  for (std::size_t l = 0; l < bounds.size(); ++l) {
    if (std::isfinite(bounds[l])) closed.points.push_back({static_cast<double>(l), bounds[l], 4, ink});
  }
  if (!closed.points.empty()) figure.series.emplace_back(std::move(closed));
}

Figure branch_figure(const Observation& observation, const DepthView& depth) {
  Figure figure = sheet("branch_norms", "Branch norms", "Jacobian of each branch, without its residual",
                        {.label = "layer", .ticks = layer_ticks(observation, depth, false)},
                        {.label = "norm of the branch |J|",
                         .scale = Scale::log});  // some layers are a thousand times as large as their neighbours
  Bars bars{.name = "norm of the branch |J|"};
  for (std::size_t l = 0; l < depth.branch_norms.size(); ++l) {
    const auto layer = static_cast<std::size_t>(depth.layers[l]);
    const std::string kind = layer < observation.model.layers.size() ? observation.model.layers[layer].kind : "";
    bars.bars.push_back({.x = static_cast<double>(l), .value = depth.branch_norms[l], .ink = layer_ink(kind)});
  }
  figure.series.emplace_back(std::move(bars));
  add_closed_forms(figure, "closed form J.8", depth.branch_bounds, Marker::triangle_down, Role::warning);
  add_closed_forms(figure, "queries alone, J.2 or J.4", depth.query_bounds, Marker::diamond, 3);
  return figure;
}

/// Whether the lists have matching sizes and are not empty.
bool is_whole(const DepthView& depth) {
  const std::size_t branches = depth.layers.size();
  return branches > 0 && depth.branch_norms.size() == branches && depth.gradient.size() == branches + 1;
}

}  // namespace

std::string depth_subtitle(const Observation& observation, const Selection&) {
  const DepthView* depth = observation.depth.get();
  if (!depth) return why_not_yet(observation, "Computing: starts within seconds after the spectra.");
  if (!is_whole(*depth))
    return "Nothing to measure: the inspected sequence has no question, or a number is not finite.";
  return "solid: measured, dashed: bound" + age_text(observation, depth->step);
}

std::vector<Figure> depth_figures(const Observation& observation, const Selection&, CurveStore&) {
  const DepthView* depth = observation.depth.get();
  if (!depth || !is_whole(*depth)) return {};
  return {gradient_figure(observation, *depth), branch_figure(observation, *depth)};
}

namespace {

std::string vector_numbers(const Observation& o, const Selection&) {
  const TheoryView* t = o.theory.get();
  return t ? "κ(V) = " + number_text(t->eigenvector_condition, 3) + ", κ = " + number_text(t->kappa, 3) : "";
}

std::string gap_numbers(const Observation& o, const Selection&) {
  const TheoryView* t = o.theory.get();
  if (!t) return "";
  const std::string step = gradient_step_text(*t);
  return "κ = " + number_text(t->kappa, 3) + (step.empty() ? "" : ",  " + step);
}

std::string depth_numbers(const Observation& o, const Selection&) {
  const DepthView* depth = o.depth.get();
  if (!depth || depth->gradient.empty() || depth->residual_bound.empty()) return "";
  std::string text = "|g_0| = " + number_text(depth->gradient.front(), 3) + " ≤ " +
                     number_text(depth->residual_bound.front(), 3) +
                     ",  |g_m| = " + number_text(depth->gradient.back(), 3);
  if (!depth->closed_product.empty()) text += ",  along the queries ≤ " + number_text(depth->closed_product.front(), 3);
  return text;
}

std::string state_size_numbers(const Observation& o, const Selection&) {
  const TheoryView* t = o.theory.get();
  return t ? bytes_text(static_cast<std::int64_t>(t->state_bytes)) + " against " + number_text(t->cache_bytes, 4) +
                 " B per token: equal after " + number_text(t->crossing, 4)
           : "";
}

// Theory describes the model with the interventions.
constexpr AnalysisSet theory = Analysis::inspected | Analysis::spectra | Analysis::theory;

constexpr PlotRow theory_rows[] = {
    {"perturbation", theory, LayerTrait::koopman_heads, theory_subtitle, perturbation_figures},
    {"filter_theory", theory, LayerTrait::koopman_heads, theory_subtitle, filter_theory_figures},
    {"linear_gap", theory, LayerTrait::koopman_heads, theory_subtitle, linear_gap_figures},
    {"query_jacobian", theory, LayerTrait::koopman_heads, theory_subtitle, query_jacobian_figures},
    {"gradient_depth", theory, LayerTrait::tokens, depth_subtitle, depth_figures},
    {"state_size", theory, LayerTrait::koopman_heads, theory_subtitle, state_size_figures},
    {"claims", {}, {}, claims_subtitle, claims_figures},
};

constexpr CardNumbers theory_numbers[] = {
    {"perturbation", vector_numbers},  {"perturbation_eigenvalues", vector_numbers},
    {"filter_theory", gamma_numbers},  {"filter_norms", gamma_numbers},
    {"linear_gap", gap_numbers},       {"query_jacobian_softmax", text_about<&Observation::theory, linearity_text>},
    {"gradient_depth", depth_numbers}, {"state_size", state_size_numbers}};

}  // namespace

PlotFamily theory_plots() { return {theory_rows, theory_numbers}; }

}  // namespace afterglow
