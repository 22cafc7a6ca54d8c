// Bars from 0 to the step at which the condition first held.
#include <algorithm>

#include "core/figure/axis.h"
#include "core/io/number_text.h"
#include "views/analyses/studies/study_figures.h"
#include "views/figures/semantic_colours.h"
#include "views/figures/sheet.h"

namespace afterglow {
namespace {

/// The end of a bar: for a condition that was not reached, the last step that was trained.
double end_of(const BisectView& view, const BisectedPart& part) {
  return static_cast<double>(part.step < 0 ? view.until : part.step);
}

/// Twice the number of steps with all parts, doubled as often as a bar needs: the axis seldom changes while the
/// repetitions arrive.
double last_shown(const BisectView& view) {
  const auto until = static_cast<double>(view.until), from = static_cast<double>(view.from);
  if (view.parts.empty() || view.parts[0].step < 0) return until;
  double reach = std::max(1.0, 2 * (end_of(view, view.parts[0]) - from));
  for (const BisectedPart& part : view.parts) {
    while (from + reach < std::min(until, end_of(view, part))) reach *= 2;
  }
  return std::min(until, from + reach);
}

Figure bars_figure(const BisectView& view) {
  const double shown = last_shown(view);
  Figure figure = sheet("bisect", "When did it start?", "",
                        {.label = "part that does not learn",
                         .range = Range{-0.6, static_cast<double>(std::max<std::size_t>(view.planned, 1)) - 0.4}},
                        {.label = "first step", .range = Range{static_cast<double>(view.from), 1.12 * shown}},
                        LabelPlacement::none);
  Bars bars{.name = "first step", .width = 0.7};
  std::vector<std::string> names;
  std::vector<double> steps;
  for (std::size_t i = 0; i < view.parts.size(); ++i) {
    const BisectedPart& part = view.parts[i];
    const auto x = static_cast<double>(i);
    const double end = end_of(view, part);
    bars.bars.push_back({.x = x,
                         .value = end,
                         .ink = part.step < 0       ? Ink(Role::failure)
                                : part.part.empty() ? Ink(Role::text)
                                                    : layer_ink(part.kind)});
    figure.x.ticks.push_back({x, part.part.empty() ? "all learn" : "no " + part.part});
    figure.text_labels.push_back(
        {x, end + 0.02 * shown, part.step < 0 ? "never" : grouped_number(part.step), Role::text, Anchor::middle});
    names.push_back(part.part.empty() ? "none" : part.part);
    steps.push_back(static_cast<double>(part.step));
  }
  if (view.parts.empty())
    figure.text_labels.push_back({(figure.x.range->low + figure.x.range->high) / 2, static_cast<double>(view.until) / 2,
                                  "Repeating the training with one part frozen at a time.", Role::dim, Anchor::middle});
  figure.series.emplace_back(std::move(bars));
  if (!view.parts.empty() && view.parts[0].step >= 0)
    add_level(figure, static_cast<double>(view.parts[0].step), "", Role::dim, Dash::dashed);
  figure.table = {{"frozen part", names}, {"first step", steps}};
  return figure;
}

}  // namespace

std::string bisect_text(const BisectView& view) {
  if (view.parts.empty()) return "";
  if (view.parts[0].step < 0)
    return view.condition + " does not hold up to step " + grouped_number(view.until) + ", whichever parts learn.";
  std::string text = view.condition + " holds from step " + grouped_number(view.parts[0].step);
  const auto latest = std::ranges::max_element(view.parts.begin() + 1, view.parts.end(), {},
                                               [&](const BisectedPart& part) { return end_of(view, part); });
  if (latest == view.parts.end()) return text + ".";
  text += "; while " + latest->part + " is frozen, ";
  return text +
         (latest->step < 0 ? "not by step " + grouped_number(view.until)
                           : "from step " + grouped_number(latest->step)) +
         ".";
}

std::string time_of_steps(const Observation& observation, double steps) {
  const double rate = observation.steps_per_second;
  return rate > 0 ? " Takes about " + rough_duration_text(steps / rate) + "." : "";
}

std::string bisect_subtitle(const Observation& observation, const Selection&) {
  const BisectView* view = observation.bisect.get();
  if (!view)
    return "When does a condition begin to hold, and which part must learn first?" +
           time_of_steps(observation, static_cast<double>(observation.model.layers.size() + 1) *
                                          static_cast<double>(observation.final_step));
  if (view->is_complete()) return view->condition + " · one part frozen at a time";
  return view->condition + " · repetition " + std::to_string(view->parts.size() + 1) + " of " +
         std::to_string(view->planned) + ", step " + grouped_number(view->at);
}

std::vector<Figure> bisect_figures(const Observation& observation, const Selection&, CurveStore&) {
  const BisectView* view = observation.bisect.get();
  if (!view) return {};
  std::vector<Figure> figures{bars_figure(*view)};
  figures[0].subtitle = bisect_subtitle(observation, {});
  figures[0].subject = view->name;
  return figures;
}

}  // namespace afterglow
