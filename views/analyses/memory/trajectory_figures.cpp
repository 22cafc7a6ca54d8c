// The path fades like an afterglow: the colour of a dot grows with its step, the present one is highlighted.
#include <algorithm>
#include <cmath>

#include "core/figure/axis.h"
#include "core/io/number_text.h"
#include "views/analyses/memory/memory_figures.h"
#include "views/figures/semantic_colours.h"
#include "views/figures/sheet.h"

namespace afterglow {
namespace {

constexpr double rounding_share = 1e-9;  ///< of the largest eigenvalue: smaller ones are rounding
constexpr double lowest_error = 1e-4;    ///< a relative error too small to see
constexpr std::size_t max_modes = 4;
constexpr std::string_view step_prefix = "step ";

const TrajectoryView* recorded(const Observation& observation) {
  const TrajectoryView* view = observation.trajectory.get();
  return view && view->steps.size() >= 2 && !view->empirical.eigenvalues.empty() ? view : nullptr;
}

std::string reach_text(const Observation& observation, const TrajectoryView& view) {
  return view.step == observation.step ? "" : " · up to step " + grouped_number(view.step);
}

/// "mode 1 · 63 %"
std::string mode_label(const TrajectoryView& view, std::size_t k) {
  std::string text = "mode " + std::to_string(k + 1);
  if (k >= view.explained.size() || (k > 0 && !std::isfinite(view.explained[k - 1]))) return text;
  const double share = view.explained[k] - (k > 0 ? view.explained[k - 1] : 0);
  return std::isfinite(share) ? text + " · " + number_text(100 * share, 2) + " %" : text;
}

ScatterPoint path_point(const TrajectoryView& view, std::size_t across, std::size_t t, std::size_t last) {
  const double age = last > 0 ? static_cast<double>(t) / static_cast<double>(last) : 1;
  ScatterPoint point{.x = view.path[0][t],
                     .y = view.path[across][t],
                     .radius = t == 0 || t == last ? 4.6 : 2.6,
                     .ink = t == 0 ? Ink(Role::dim) : Ink(0),
                     .ring = t == last,
                     .id = std::string(step_prefix) + std::to_string(view.steps[t]),
                     .presence = t == 0 ? 1 : 0.18 + 0.82 * age};
  if (t == 0) point.label = "start";
  return point;
}

Figure plane_figure(const TrajectoryView& view, std::size_t across) {
  Figure figure = sheet("trajectory_1" + std::to_string(across + 1), "Modes 1 and " + std::to_string(across + 1), "",
                        {mode_label(view, 0)}, {mode_label(view, across)}, LabelPlacement::none);
  const std::size_t size = std::min({view.steps.size(), view.path[0].size(), view.path[across].size()});
  if (size > 0) figure.subtitle = "ring: step " + grouped_number(view.steps[size - 1]);
  Scatter path{.name = "path of training", .marker = Marker::circle};
  Trail trail;
  for (std::size_t t = 0; t < size; ++t) {
    trail.x.push_back(view.path[0][t]);
    trail.y.push_back(view.path[across][t]);
    path.points.push_back(path_point(view, across, t, size - 1));
  }
  path.trails.push_back(std::move(trail));
  figure.series.emplace_back(std::move(path));
  return figure;
}

Figure modes_axis(const std::string& id, const std::string& title, Axis y, double first, std::size_t last) {
  return sheet(id, title, "",
               {.label = "modes k",
                .range = Range{first, std::max(first + 1, static_cast<double>(last))},
                .integer_ticks = true},
               std::move(y));
}

/// Values over k = first, first + 1, ..; finite values below `lowest` are left out.
Line over_modes(const std::string& name, const std::vector<double>& values, double first, double lowest, Ink ink) {
  std::vector<double> x, y;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i] < lowest) continue;
    x.push_back(first + static_cast<double>(i));
    y.push_back(values[i]);
  }
  return styled(line_through(name, std::move(x), std::move(y), ink, Dash::automatic, 1.8),
                {.marker = Marker::automatic});
}

std::vector<double> shares_of_largest(const std::vector<double>& eigenvalues) {
  return mapped(eigenvalues, [&](double eigenvalue) { return eigenvalue / eigenvalues.front(); });
}

/// Share of the path's variance that its projection onto the first k modes keeps: 1 - error².
std::vector<double> kept_variance(const std::vector<double>& errors) {
  return mapped(errors, [](double error) { return 1 - error * error; });
}

/// The number of modes on an axis: those of strategy A above rounding.
std::size_t modes_shown(const TrajectoryView& view) {
  const std::vector<double> shares = shares_of_largest(view.empirical.eigenvalues);
  return static_cast<std::size_t>(
      std::count_if(shares.begin(), shares.end(), [](double share) { return !(share < rounding_share); }));
}

/// Strategy A and, if it is known, B.
void add_strategies(Figure& figure, const std::vector<double>& a, const std::vector<double>& b, double first,
                    double lowest) {
  figure.series.emplace_back(over_modes("A", a, first, lowest, 0));
  if (!b.empty()) figure.series.emplace_back(over_modes("B", b, first, lowest, 1));
}

Figure eigenvalue_figure(const TrajectoryView& view) {
  Figure figure =
      modes_axis("kl_eigenvalues", "Eigenvalues", {.label = "λ_k / λ_1", .scale = Scale::log}, 1, modes_shown(view));
  add_strategies(figure, shares_of_largest(view.empirical.eigenvalues), shares_of_largest(view.kernel.eigenvalues), 1,
                 rounding_share);
  return figure;
}

Figure explained_figure(const TrajectoryView& view) {
  Figure figure = modes_axis("kl_explained", "Explained variance",
                             {.label = "share of the variance", .range = Range{0, 1.04}}, 0, modes_shown(view));
  add_strategies(figure, kept_variance(view.empirical.reconstruction_error),
                 kept_variance(view.kernel.reconstruction_error), 0, -1);
  add_level(figure, 0.95, "95 %", Role::dim, Dash::dotted);
  return figure;
}

Figure error_figure(const TrajectoryView& view) {
  Figure figure = modes_axis("kl_error", "Reconstruction error", {.label = "|Hc − P_k Hc| / |Hc|", .scale = Scale::log},
                             0, modes_shown(view));
  add_strategies(figure, view.empirical.reconstruction_error, view.kernel.reconstruction_error, 0, lowest_error);
  return figure;
}

/// "95 % of the variance in 3 modes"; empty if the first 32 are not enough.
std::string needed_text(const TrajectoryView& view) {
  for (std::size_t k = 0; k < view.explained.size(); ++k) {
    if (view.explained[k] >= 0.95)
      return "95 % of the variance in " + std::to_string(k + 1) + (k == 0 ? " mode" : " modes");
  }
  return "";
}

Figure modes_figure(const TrajectoryView& view, const TrajectoryModes& modes, const std::string& id,
                    const std::string& title) {
  Figure figure = sheet(id, title, "", {.label = "step", .integer_ticks = true}, {"mode φ_k"});
  add_level(figure, 0, "", Role::faint, Dash::solid);
  for (std::size_t k = 0; k < std::min(max_modes, modes.modes.size()); ++k) {
    figure.series.emplace_back(line_through("mode " + std::to_string(k + 1),
                                            std::vector<double>(view.steps.begin(), view.steps.end()), modes.modes[k],
                                            mode_ink(static_cast<int>(k)), Dash::automatic, k == 0 ? 2.2 : 1.5));
  }
  return figure;
}

/// The message of a path with fewer than two recorded steps.
std::string from_the_second_row(const Observation& observation, const std::string& what) {
  if (observation.folder) return trained_elsewhere;
  return what + " appears with the second recorded step of the training: Space begins it. At most " +
         std::to_string(TrajectoryView::max_steps) + " steps are recorded.";
}

}  // namespace

std::int64_t step_of_point(const std::string& id) {
  if (!id.starts_with(step_prefix)) return -1;
  return parse_whole_number(std::string_view(id).substr(step_prefix.size())).value_or(-1);
}

double loss_at(const Observation& observation, std::int64_t step) {
  if (observation.runs.empty()) return std::nan("");
  const RunCurves& run = observation.ahead ? *observation.ahead : observation.runs.back();
  const std::int64_t place = step - run.first_step;
  return place >= 0 && place < static_cast<std::int64_t>(run.loss.size()) ? run.loss[static_cast<std::size_t>(place)]
                                                                          : std::nan("");
}

std::string trajectory_subtitle(const Observation& observation, const Selection&) {
  const TrajectoryView* view = recorded(observation);
  if (!view) return from_the_second_row(observation, "The path of training in its first three modes");
  return view->summary + " · pale: early steps · click a dot to rewind" + reach_text(observation, *view);
}

std::vector<Figure> trajectory_figures(const Observation& observation, const Selection&, CurveStore&) {
  const TrajectoryView* view = recorded(observation);
  std::vector<Figure> figures;
  for (std::size_t across = 1; view && across < view->path.size(); ++across)
    figures.push_back(plane_figure(*view, across));
  return figures;
}

std::string kl_spectrum_subtitle(const Observation& observation, const Selection&) {
  const TrajectoryView* view = recorded(observation);
  if (!view) return from_the_second_row(observation, "The spectrum of the path of training");
  const std::string needed = needed_text(*view);
  return (needed.empty() ? "" : needed + " · ") + "A: covariance, B: kernel · " + std::to_string(view->steps.size()) +
         " recorded steps of width " + std::to_string(view->width) + reach_text(observation, *view);
}

std::vector<Figure> kl_spectrum_figures(const Observation& observation, const Selection&, CurveStore&) {
  const TrajectoryView* view = recorded(observation);
  if (!view) return {};
  return {eigenvalue_figure(*view), error_figure(*view), explained_figure(*view)};
}

std::string temporal_modes_subtitle(const Observation& observation, const Selection&) {
  const TrajectoryView* view = recorded(observation);
  if (!view) return from_the_second_row(observation, "The panel with the first modes over the training steps");
  return "unit norm over " + std::to_string(view->steps.size()) + " recorded steps" + reach_text(observation, *view);
}

std::vector<Figure> temporal_modes_figures(const Observation& observation, const Selection&, CurveStore&) {
  const TrajectoryView* view = recorded(observation);
  if (!view) return {};
  std::vector<Figure> figures{
      modes_figure(*view, view->empirical, "temporal_modes_covariance", "Strategy A: covariance")};
  if (!view->kernel.modes.empty())
    figures.push_back(modes_figure(*view, view->kernel, "temporal_modes_kernel", "Strategy B: kernel"));
  return figures;
}

}  // namespace afterglow
