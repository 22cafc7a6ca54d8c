// Builds the figures of a table.
#include "views/figures/table_figures.h"

#include <algorithm>
#include <cmath>

#include "views/figures/meaning.h"

namespace afterglow {

namespace {

std::vector<std::string> series_of(const Table& table) {
  std::vector<std::string> names;
  for (const TableRow& row : table.rows) {
    if (std::find(names.begin(), names.end(), row.series) == names.end()) names.push_back(row.series);
  }
  return names;
}

/// Means of one series, and its runs as quiet dots.
void add_series(Figure& figure, const Table& table, const std::vector<TableResult>& results, const std::string& name,
                int index, std::size_t metric) {
  std::vector<double> x, y;
  Scatter runs;
  runs.name = name + ", runs";
  for (std::size_t row = 0; row < table.rows.size(); ++row) {
    if (table.rows[row].series != name) continue;
    const TableSummary summary = summary_of(results, row, metric);
    if (summary.runs == 0) continue;
    x.push_back(table.rows[row].x);
    y.push_back(summary.mean);
    for (const TableResult& result : results) {
      if (result.row != row || !std::isfinite(result.values[metric])) continue;
      ScatterPoint point;
      point.x = table.rows[row].x;
      point.y = result.values[metric];
      point.radius = 2;
      point.ink = Ink(index);
      runs.points.push_back(point);
    }
  }
  if (x.empty()) return;
  Line line;
  line.name = name;
  line.curve.x = x;
  line.curve.y = y;
  line.ink = Ink(index);
  line.marker = Marker::automatic;
  figure.series.emplace_back(std::move(line));
  figure.series.emplace_back(std::move(runs));
}

std::vector<AxisTick> ticks_of(const Table& table) {
  std::vector<AxisTick> ticks;
  for (const TableRow& row : table.rows) {
    const bool known = std::any_of(ticks.begin(), ticks.end(), [&](const AxisTick& tick) { return tick.at == row.x; });
    char text[32];
    std::snprintf(text, sizeof text, "%g", row.x);
    if (!known) ticks.push_back({row.x, text});
  }
  return ticks;
}

}  // namespace

std::vector<Figure> table_figures(const Table& table, const std::vector<TableResult>& results) {
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
    int index = 0;
    for (const std::string& name : series_of(table)) add_series(figure, table, results, name, index++, metric);
    if (!figure.series.empty()) figures.push_back(std::move(figure));
  }
  return figures;
}

}  // namespace afterglow
