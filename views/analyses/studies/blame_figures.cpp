// The influence of each batch, and the loss above the same steps.
#include <algorithm>
#include <cmath>

#include "core/figure/axis.h"
#include "core/io/number_text.h"
#include "views/analyses/studies/study_figures.h"
#include "views/figures/sheet.h"

namespace afterglow {
namespace {

constexpr std::string_view batch_prefix = "batch ";

Ink ink_of(const BlameView& view, double change) {
  const RunMetric& metric = view.metrics[view.shown];
  const bool is_accuracy = metric.is_share && metric.name != "diverged";
  // For loss and accuracy one direction is better; for other numbers neither.
  const double harm = view.shown == 0 ? change : is_accuracy ? -change : 0;
  return harm > 0 ? Ink(Role::accent) : harm < 0 ? Ink(Role::failure) : Ink(Role::dim);
}

Axis step_axis(const BlameView& view, std::string label) {
  return Axis{
      .label = std::move(label),
      .range = Range{static_cast<double>(view.first) - 0.5, static_cast<double>(std::max(view.last, view.until)) + 0.5},
      .integer_ticks = true};
}

Figure strip_figure(const BlameView& view) {
  const RunMetric& metric = view.metrics[view.shown];
  Figure figure = sheet("blame", "Batch influence", "", step_axis(view, "step whose batch is left out"),
                        {.label = "change of the " + metric.name, .unit = metric.unit}, LabelPlacement::none);
  Bars bars{.name = "change"};
  Scatter dots{.name = "batches"};
  double reach = 0;
  for (const RunResult& without : view.without) {
    const double change = without.values[view.shown] - view.whole[view.shown],  // positive: larger without it
        step = static_cast<double>(without.row);
    if (!std::isfinite(change)) continue;
    reach = std::max(reach, std::abs(change));
    bars.bars.push_back({step, change, std::nan(""), ink_of(view, change)});
    dots.points.push_back({.x = step,
                           .y = change,
                           .radius = 3,
                           .ink = ink_of(view, change),
                           .ring = static_cast<std::int64_t>(without.row) == view.batch.step,
                           .id = std::string(batch_prefix) + std::to_string(without.row)});
  }
  const double end = reach > 0 ? 1.08 * reach : 1;
  figure.y.range = Range{-end, end};
  if (bars.bars.empty())
    figure.text_labels.push_back({(figure.x.range->low + figure.x.range->high) / 2, 0,
                                  "Repeating the training without each batch, between the steps of the training.",
                                  Role::dim, Anchor::middle});
  figure.series.emplace_back(std::move(bars));
  figure.series.emplace_back(std::move(dots));
  add_level(figure, 0, "", Role::faint, Dash::solid);
  add_moment(figure, static_cast<double>(view.until), "compared here", Role::warning, Dash::dashed);
  return figure;
}

/// The batches that can be measured before the first measurement: those of the run's last steps.
BlameView last_steps(const RunCurves& run, const MeasureNames& names) {
  constexpr std::size_t usual = 100;
  const std::size_t shown = std::min(usual, run.loss.size()), before = run.loss.size() - shown;
  BlameView view;
  view.first = run.first_step + static_cast<std::int64_t>(before);
  view.last = view.until = view.first + static_cast<std::int64_t>(shown) - 1;
  view.metrics = {{names.loss, names.loss_unit}};
  for (std::size_t i = before; i < run.loss.size(); ++i) view.loss.push_back(run.loss[i]);
  return view;
}

Figure batch_loss_figure(const BlameView& view) {
  Figure figure = sheet("blame_loss", "Loss with every batch", "", step_axis(view, "step"),
                        {.label = view.metrics[0].name, .unit = view.metrics[0].unit}, LabelPlacement::none);
  figure.series.emplace_back(counted_line("loss", view.loss, static_cast<double>(view.first), 0));
  if (!view.whole.empty())
    figure.events.push_back({static_cast<double>(view.until),
                             view.metrics[view.shown].name + " " + number_text(view.whole[view.shown], 3),
                             Role::warning});
  if (view.batch.step >= 0)
    figure.events.push_back({static_cast<double>(view.batch.step), "batch " + std::to_string(view.batch.step)});
  return figure;
}

}  // namespace

std::int64_t batch_of_point(const std::string& id) {
  if (!id.starts_with(batch_prefix)) return -1;
  return parse_whole_number(std::string_view(id).substr(batch_prefix.size())).value_or(-1);
}

std::string batch_text(const BlameView& view, std::int64_t step) {
  if (view.whole.empty()) return "";
  const auto found = std::ranges::find(view.without, static_cast<std::size_t>(step), &RunResult::row);
  if (step < 0 || found == view.without.end()) return "";
  return "step " + grouped_number(step) + ": without its batch the " + view.metrics[view.shown].name + " at step " +
         grouped_number(view.until) + " is " + number_text(found->values[view.shown], 4) + " instead of " +
         number_text(view.whole[view.shown], 4);
}

std::string blame_subtitle(const Observation& observation, const Selection&) {
  const BlameView* view = observation.blame.get();
  if (!view) {
    return observation.step > observation.oldest_step
               ? "Which batch caused this? The training is repeated without each of the last 100 batches." +
                     time_of_steps(observation, 5000)
               : "Train some steps first; then the effect of each batch can be measured.";
  }
  const auto planned = static_cast<std::size_t>(view->last - view->first + 1);
  return view->metrics[view->shown].name + " at step " + grouped_number(view->until) +
         " when one batch is left out · " +
         (view->without.size() < planned ? std::to_string(view->without.size()) + " of " : "") +
         std::to_string(planned) + " batches";
}

std::vector<Figure> blame_figures(const Observation& observation, const Selection&, CurveStore&) {
  const BlameView* view = observation.blame.get();
  if (!view) {
    if (observation.runs.empty() || observation.runs.back().loss.empty()) return {};
    return {batch_loss_figure(last_steps(observation.runs.back(), observation.measures))};
  }
  std::vector<Figure> figures{strip_figure(*view)};
  figures[0].subtitle = blame_subtitle(observation, {});
  figures[0].subject = view->name;
  if (!view->loss.empty()) figures.push_back(batch_loss_figure(*view));
  return figures;
}

}  // namespace afterglow
