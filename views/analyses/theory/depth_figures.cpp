// Lines over depth from a DepthView.
#include "views/analyses/theory/depth_figures.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "core/engine/analyses/theory/depth_view.h"
#include "views/figures/semantic_colours.h"
#include "views/figures/sheet.h"

namespace afterglow {

namespace {

const DepthView* depth_of(const Observation& observation) { return observation.depth.get(); }

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
  Line line{.name = std::move(name),
            .curve = {std::move(x), std::move(y)},
            .ink = ink,
            .dash = dash,
            .width = dash == Dash::solid ? 2.2 : 1.5};
  if (dash == Dash::solid) line.marker = Marker::circle;
  return line;
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
  const DepthView* depth = depth_of(observation);
  if (!depth) return why_not_yet(observation, "Computing: starts within seconds after the spectra.");
  if (!is_whole(*depth))
    return "Nothing to measure: the inspected sequence has no question, or a number is not finite.";
  std::string text = "solid: measured, dashed: bound";
  if (depth->step != observation.step) text += " · as of step " + grouped_number(depth->step);
  return text;
}

std::vector<Figure> depth_figures(const Observation& observation, const Selection&, CurveStore&) {
  const DepthView* depth = depth_of(observation);
  if (!depth || !is_whole(*depth)) return {};
  return {gradient_figure(observation, *depth), branch_figure(observation, *depth)};
}

}  // namespace afterglow
