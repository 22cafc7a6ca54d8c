// Builds the figures of the phase map.
#include <algorithm>
#include <cmath>
#include <complex>
#include <iterator>

#include "core/figure/axis.h"
#include "core/io/number_text.h"
#include "views/analyses/spectra/spectrum_figures.h"
#include "views/analyses/studies/study_figures.h"
#include "views/figures/semantic_colours.h"
#include "views/figures/studies/sweep_figures.h"

namespace afterglow {
namespace {

constexpr std::string_view run_prefix = "run ";
constexpr std::size_t quality = 1;  // the number that ranks the runs: the accuracy

Point cell_of(const PhaseMapView& map, const RunResult& result) {
  const std::vector<std::size_t> place = place_of(map.sweep.axes, result.row);
  const std::size_t rows = map.sweep.axes[1].values.size();
  return {static_cast<double>(place[0]), static_cast<double>(rows - 1 - place[1])};
}

/// In the middle of a map without colours.
TextLabel first_run_note(const PhaseMapView& map) {
  const std::vector<SweepAxis>& axes = map.sweep.axes;
  const auto middle = [&](std::size_t axis) { return (static_cast<double>(axes[axis].values.size()) - 1) / 2; };
  return {middle(0), middle(1),
          "first run: step " + grouped_number(map.first_run_at) + " of " + grouped_number(map.steps) +
              ", computed between the steps of the training",
          Role::dim, Anchor::middle};
}

/// Dots at the centres of cells with a run; cells without a dot have the colour of a neighbour.
Scatter finished_runs(const PhaseMapView& map) {
  Scatter dots{.name = "finished runs"};
  for (const RunResult& result : map.sweep.results) {
    const Point cell = cell_of(map, result);
    dots.points.push_back({.x = cell.x,
                           .y = cell.y,
                           .radius = 2.5,
                           .ink = Role::dim,
                           .id = std::string(run_prefix) + std::to_string(result.row),
                           .presence = 0.35});
  }
  return dots;
}

const RunResult* best_run(const PhaseMapView& map) {
  const RunResult* best = nullptr;
  for (const RunResult& result : map.sweep.results) {
    if (!std::isfinite(result.values[quality])) continue;
    if (best == nullptr || result.values[quality] > best->values[quality]) best = &result;
  }
  return best;
}

/// With a ring around the slowest mode, whose half-life is a number of the map.
Figure spectrum_of(const RunSpectrum& spectrum) {
  double reach = 0;
  for (const std::complex<double>& lambda : spectrum.eigenvalues) reach = std::max(reach, std::abs(lambda));
  Scatter dots{.name = "eigenvalues", .marker = Marker::circle};
  for (const std::complex<double>& lambda : spectrum.eigenvalues) {
    const bool is_slowest = std::abs(lambda) > reach * (1 - 1e-9);  // both of a pair
    dots.points.push_back({lambda.real(), lambda.imag(), 4, run_ink(0), is_slowest, "", ""});
  }
  Figure figure = eigenvalue_plane("phase_map_spectrum", "Spectrum of this run", reach);
  figure.subtitle = spectrum.head + ", ring: slowest mode after the last step";
  figure.series.emplace_back(std::move(dots));
  return figure;
}

std::string numbers_of(const PhaseMapView& map, const RunResult& result) {
  std::string text;
  for (std::size_t i = 0; i < map.sweep.metrics.size(); ++i) {
    const RunMetric& metric = map.sweep.metrics[i];
    if (metric.name == "trained" || !std::isfinite(result.values[i])) continue;
    text += (text.empty() ? "" : " · ") + words_of(metric.name) + " " + number_text(result.values[i], 3);
  }
  return text;
}

}  // namespace

std::int64_t run_of_point(const std::string& id) {
  if (!id.starts_with(run_prefix)) return -1;
  return parse_whole_number(std::string_view(id).substr(run_prefix.size())).value_or(-1);
}

std::optional<std::size_t> run_at(const PhaseMapView& map, double x, double y) {
  for (const RunResult& result : map.sweep.results) {
    const Point cell = cell_of(map, result);
    if (std::abs(cell.x - x) <= 0.5 && std::abs(cell.y - y) <= 0.5) return result.row;
  }
  return std::nullopt;
}

std::string phase_map_subtitle(const Observation& observation, const Selection&) {
  const PhaseMapView* map = observation.phase_map.get();
  if (!map) return "Waiting: the first run of the map begins when training pauses, or between its steps.";
  const std::size_t all = size_of(map->sweep.axes), finished = map->sweep.results.size();
  const double runs = static_cast<double>(all - finished), rate = observation.steps_per_second;
  return map->sweep.name + " · " + words_of(map->sweep.metrics[map->shown].name) + " after " +
         grouped_number(map->steps) + " steps · " +
         (finished == all ? std::to_string(all) : std::to_string(finished) + " of " + std::to_string(all)) + " runs" +
         (rate > 0 && runs > 0
              ? ", the rest takes about " + rough_duration_text(runs * static_cast<double>(map->steps) / rate)
              : "");
}

std::vector<Figure> phase_run_figures(const PhaseMapView& map, std::size_t row) {
  std::vector<Figure> figures{training_figure("phase_map_run", "", map.sweep.metrics[0])};
  figures[0].title = place_name(map.sweep.axes, row);
  figures[0].labels = LabelPlacement::none;
  const auto run = std::ranges::find(map.sweep.results, row, &RunResult::row);
  if (run == map.sweep.results.end()) return figures;
  figures[0].subtitle = numbers_of(map, *run);
  add_training(map.sweep.results, row, map.sweep.metrics[0].name, 0, figures[0]);
  if (!run->spectrum.eigenvalues.empty()) figures.push_back(spectrum_of(run->spectrum));
  return figures;
}

std::vector<Figure> phase_map_figures(const Observation& observation, const Selection&, CurveStore&) {
  const PhaseMapView* map = observation.phase_map.get();
  if (!map) return {};
  Figure figure = phase_figure(map->sweep, map->shown);
  figure.id = "phase_map";
  figure.title = "Phase map";
  figure.subtitle = phase_map_subtitle(observation, {});
  figure.subject = map->sweep.name;
  figure.labels = LabelPlacement::none;
  if (map->sweep.results.empty())
    figure.text_labels.push_back(first_run_note(*map));
  else
    figure.series.emplace_back(finished_runs(*map));
  std::vector<Figure> figures;
  figures.push_back(std::move(figure));
  if (const RunResult* best = best_run(*map))
    std::ranges::move(phase_run_figures(*map, best->row), std::back_inserter(figures));
  return figures;
}

}  // namespace afterglow
