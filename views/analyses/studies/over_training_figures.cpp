// Two plots with the same steps below each other.
#include <algorithm>
#include <cmath>

#include "core/figure/axis.h"
#include "views/analyses/studies/study_figures.h"
#include "views/figures/sheet.h"
#include "views/figures/studies/sweep_figures.h"

namespace afterglow {
namespace {

bool is_whole(const OverTrainingView& view) { return view.step.size() == view.value.size(); }

Axis followed_steps(const Observation& observation, const OverTrainingView& view) {
  const double first = view.step.empty() ? 0 : std::min(0.0, view.step.front());
  return Axis{.label = "step",
              .range = Range{first, std::max(static_cast<double>(observation.latest_step), first + 1)},
              .integer_ticks = true};
}

Figure number_figure(const Observation& observation, const OverTrainingView& view) {
  Figure figure = sheet("over_training", words_of(view.number), "", followed_steps(observation, view),
                        {.label = words_of(view.number)}, LabelPlacement::none);
  figure.series.push_back(styled(line_through(view.number, view.step, view.value, Role::accent),
                                 {.marker = view.step.size() < 60 ? Marker::circle : Marker::none}));
  figure.table = {{"step", view.step}, {view.number, view.value}};
  return figure;
}

Figure loss_above(const Observation& observation, const OverTrainingView& view) {
  Figure figure =
      sheet("over_training_loss", "Loss", "", followed_steps(observation, view),
            {.label = observation.measures.loss, .unit = observation.measures.loss_unit}, LabelPlacement::none);
  const RunCurves& run = observation.runs.back();
  figure.series.emplace_back(line_through("loss", counted(run.loss.size(), static_cast<double>(run.first_step)),
                                          run.loss, 0, Dash::automatic, 1.5));
  return figure;
}

}  // namespace

std::string over_training_text(const OverTrainingView& view) {
  if (view.step.empty() || !is_whole(view)) return "";
  const auto most = std::ranges::max_element(view.value, {}, [](double v) { return std::isfinite(v) ? v : -INFINITY; });
  const auto at = [&](std::size_t i) { return grouped_number(static_cast<std::int64_t>(view.step[i])); };
  return words_of(view.number) + ": " + number_text(view.value.front(), 3) + " at step " + at(0) + ", " +
         number_text(view.value.back(), 3) + " at step " + at(view.step.size() - 1) + ", largest " +
         number_text(*most, 3) + " at step " + at(static_cast<std::size_t>(most - view.value.begin()));
}

std::string over_training_subtitle(const Observation& observation, const Selection&) {
  const OverTrainingView* view = observation.over_training.get();
  if (!view)
    return "Follows one number of a panel over all kept steps, within seconds: choose it above, or in a panel's menu.";
  return words_of(view->number) + " at " + std::to_string(view->step.size()) + " kept steps" +
         (view->missing > 0 ? " · " + std::to_string(view->missing) + " not computed yet" : "");
}

std::vector<Figure> over_training_figures(const Observation& observation, const Selection&, CurveStore&) {
  const OverTrainingView* view = observation.over_training.get();
  if (!view || !is_whole(*view)) return {};
  std::vector<Figure> figures{number_figure(observation, *view)};
  if (!observation.runs.empty() && !observation.runs.back().loss.empty())
    figures.push_back(loss_above(observation, *view));
  figures[0].subtitle = over_training_subtitle(observation, {});
  figures[0].subject = view->name;
  return figures;
}

}  // namespace afterglow
