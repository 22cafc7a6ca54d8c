// Builds the figures of a table.
#include "views/figures/table_figures.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "views/figures/sweep_figures.h"

namespace afterglow {

namespace {

std::vector<std::string> series_of(const TableView& table) {
  std::vector<std::string> names;
  for (const TableRow& row : table.rows) {
    if (std::find(names.begin(), names.end(), row.series) == names.end()) names.push_back(row.series);
  }
  return names;
}

bool has_several_seeds(const std::vector<RunResult>& results) {
  return std::any_of(results.begin(), results.end(),
                     [&](const RunResult& result) { return result.seed != results.front().seed; });
}

/// A small dot for each run; a single one lies on its mean and is left out.
Scatter runs_of(const TableView& table, const std::vector<RunResult>& results, const std::vector<std::string>& names,
                std::size_t metric) {
  Scatter runs;
  runs.name = "single runs";
  for (const RunResult& result : results) {
    const TableRow& row = table.rows[result.row];
    if (!std::isfinite(result.values[metric])) continue;
    ScatterPoint point;
    point.x = row.x;
    point.y = result.values[metric];
    point.radius = 2;
    point.ink = Ink(static_cast<int>(std::find(names.begin(), names.end(), row.series) - names.begin()));
    runs.points.push_back(point);
  }
  return runs;
}

Line means_of(const TableView& table, const std::vector<RunResult>& results, const std::string& name, int index,
              std::size_t metric) {
  std::vector<double> x, y;
  for (std::size_t row = 0; row < table.rows.size(); ++row) {
    const ResultSummary summary = summary_of(results, row, metric);
    if (table.rows[row].series != name || summary.runs == 0) continue;
    x.push_back(table.rows[row].x);
    y.push_back(summary.mean);
  }
  Line line;
  line.name = name;
  line.curve.x = x;
  line.curve.y = y;
  line.ink = Ink(index);
  line.marker = Marker::automatic;
  return line;
}

std::vector<AxisTick> ticks_of(const TableView& table) {
  std::vector<AxisTick> ticks;
  for (const TableRow& row : table.rows) {
    const bool known = std::any_of(ticks.begin(), ticks.end(), [&](const AxisTick& tick) { return tick.at == row.x; });
    char text[32];
    std::snprintf(text, sizeof text, "%g", row.x);
    if (!known) ticks.push_back({row.x, text});
  }
  return ticks;
}

/// How the runs at one place of the axis were trained, mean and spread over their seeds.
Figure training_of(const TableView& table, const std::vector<RunResult>& results, const AxisTick& place) {
  const std::string where = table.x_label + " " + place.label + (table.x_unit.empty() ? "" : " " + table.x_unit);
  Figure figure =
      training_figure("table_" + table.name + "_training_" + place.label,
                      where + (has_several_seeds(results) ? " · mean and one standard deviation" : ""), {"loss", ""});
  const std::vector<std::string> names = series_of(table);
  for (std::size_t row = 0; row < table.rows.size(); ++row) {
    const std::string& series = table.rows[row].series;
    const auto colour = static_cast<int>(std::find(names.begin(), names.end(), series) - names.begin());
    if (table.rows[row].x == place.at) add_training(results, row, series, colour, figure);
  }
  return figure;
}

}  // namespace

std::vector<Figure> table_figures(const TableView& table, const std::vector<RunResult>& results) {
  std::vector<Figure> figures;
  for (std::size_t metric = 0; metric < table.metrics.size(); ++metric) {
    Figure figure;
    figure.id = "table_" + table.name + "_" + std::to_string(metric);
    figure.title = table.title;
    figure.subtitle = table.about;
    figure.x = {table.x_label, table.x_unit};
    figure.x.scale = table.x_logarithmic ? Scale::log : Scale::linear;
    figure.x.ticks = ticks_of(table);
    figure.y = {table.metrics[metric].name, table.metrics[metric].unit};
    if (table.metrics[metric].is_share) figure.y.range = Range{0, 1.02};
    const std::vector<std::string> names = series_of(table);
    for (std::size_t i = 0; i < names.size(); ++i) {
      Line line = means_of(table, results, names[i], static_cast<int>(i), metric);
      if (!line.curve.x.empty()) figure.series.emplace_back(std::move(line));
    }
    if (!figure.series.empty() && has_several_seeds(results))
      figure.series.emplace_back(runs_of(table, results, names, metric));
    if (!figure.series.empty()) figures.push_back(std::move(figure));
  }
  for (const AxisTick& place : ticks_of(table)) {
    Figure training = training_of(table, results, place);
    if (!training.series.empty()) figures.push_back(std::move(training));
  }
  return figures;
}

}  // namespace afterglow
