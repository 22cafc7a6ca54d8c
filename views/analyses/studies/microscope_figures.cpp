// Lines on a logarithmic axis; a straight one grows by the same factor in each step.
#include <algorithm>
#include <cmath>

#include "core/figure/axis.h"
#include "views/analyses/studies/study_figures.h"
#include "views/figures/semantic_colours.h"
#include "views/figures/sheet.h"

namespace afterglow {
namespace {

/// A log axis cannot show 0: equal weights have no line.
Curve positive(const std::vector<double>& steps, const std::vector<double>& distances) {
  std::vector<double> x, y;
  for (std::size_t i = 0; i < std::min(steps.size(), distances.size()); ++i) {
    if (!(distances[i] > 0)) continue;
    x.push_back(steps[i]);
    y.push_back(distances[i]);
  }
  return {Values(std::move(x)), Values(std::move(y)), nullptr};
}

void add_distances(Figure& figure, const MicroscopeView& view) {
  LinesOfColour lines;
  for (std::size_t part = 0; part < view.parts.size() && part < view.distance.size(); ++part) {
    const Ink ink = part < view.kinds.size() ? layer_ink(view.kinds[part]) : Ink(Role::dim);
    figure.series.push_back(Line{.name = view.parts[part],
                                 .curve = positive(view.step, view.distance[part]),
                                 .ink = ink,
                                 .dash = plain_dashes[lines.add(ink) % plain_dashes.size()],
                                 .width = 1.5});
  }
  figure.series.push_back(Line{.name = "all weights",
                               .curve = positive(view.step, view.whole),
                               .ink = Role::text,
                               .dash = Dash::solid,
                               .width = 2.5});
}

/// A line at 0, which only a linear axis can show.
void add_nothing(Figure& figure, const MicroscopeView& view) {
  figure.y.scale = Scale::linear;
  figure.y.range = Range{-1, 1};
  figure.series.emplace_back(line_through("all weights", view.step, view.whole, Role::text, Dash::solid));
  figure.text_labels.push_back({(figure.x.range->low + figure.x.range->high) / 2, 0.3,
                                view.step.empty()
                                    ? "Training both runs step by step, between the steps of the training."
                                    : "Both runs have the same weights, bit for bit.",
                                Role::text, Anchor::middle});
}

/// "ridge_readout in layers.1.ska.readout, head 0, token 3"
std::string first_text(const FirstDifference& first) {
  return first.operation + " in " + first.place + (first.head >= 0 ? ", head " + std::to_string(first.head) : "") +
         ", token " + std::to_string(first.token);
}

Figure distance_figure(const MicroscopeView& view) {
  Figure figure = sheet("microscope", "Twin runs", "",
                        {.label = "step",
                         .range = Range{static_cast<double>(view.from) - 0.5, static_cast<double>(view.until) + 0.5},
                         .integer_ticks = true},
                        {.label = "distance |w − w′| / |w|", .scale = Scale::log});
  view.is_zero() ? add_nothing(figure, view) : add_distances(figure, view);
  if (view.first.step >= 0)
    figure.events.push_back(
        {static_cast<double>(view.first.step), "first beyond " + number_text(view.ulps, 4) + " ulp"});
  figure.table = {{"step", view.step}};
  for (std::size_t part = 0; part < view.parts.size() && part < view.distance.size(); ++part)
    figure.table.push_back({view.parts[part], view.distance[part]});
  figure.table.push_back({"all weights", view.whole});
  if (view.first.step < 0) return figure;
  figure.table.push_back({"first beyond " + number_text(view.ulps, 4) + " ulp", mapped(view.step, [&](double step) {
                            return step == static_cast<double>(view.first.step) ? first_text(view.first) : "";
                          })});
  return figure;
}

bool has_columns(const MicroscopeView& view) {
  const auto is_whole = [&](const std::vector<double>& column) { return column.size() == view.step.size(); };
  return is_whole(view.whole) && std::ranges::all_of(view.distance, is_whole);
}

std::string growth_text(double slope) {
  if (!std::isfinite(slope) || slope == 0) return "";
  const double doubling = std::log(2) / std::abs(slope);
  return (slope > 0 ? ", doubling every " : ", halving every ") + number_text(doubling, 2) + " steps";
}

}  // namespace

std::string microscope_text(const MicroscopeView& view) {
  if (view.step.empty()) return "";
  if (view.is_zero())
    return "With " + view.change + " changed, all weights are equal after " + std::to_string(view.step.size() - 1) +
           " steps, bit for bit.";
  const auto steps = std::to_string(view.step.size() - 1);
  std::string text =
      number_text(view.whole.back(), 2) + " of |w| apart after " + steps + " steps" + growth_text(view.slope) + ".";
  return view.first.step < 0 ? text : text + " Seen first at " + view.first.operation + " in " + view.first.place + ".";
}

std::string microscope_subtitle(const Observation& observation, const Selection&) {
  const MicroscopeView* view = observation.microscope.get();
  if (!view)
    return "Trains twice from here with one thing changed: how fast do the two runs diverge? Choose the change above." +
           time_of_steps(observation, 120);
  return view->change + " · from step " + grouped_number(view->from) +
         (view->is_complete ? ""
                            : " · step " + std::to_string(view->step.empty() ? 0 : view->step.size() - 1) + " of " +
                                  std::to_string(view->until - view->from));
}

std::vector<Figure> microscope_figures(const Observation& observation, const Selection&, CurveStore&) {
  const MicroscopeView* view = observation.microscope.get();
  if (!view || !has_columns(*view)) return {};
  std::vector<Figure> figures{distance_figure(*view)};
  figures[0].subtitle = microscope_subtitle(observation, {});
  figures[0].subject = view->name;
  return figures;
}

}  // namespace afterglow
