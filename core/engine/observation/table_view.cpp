// Means and spreads of a table's runs.
#include "core/engine/observation/table_view.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

namespace afterglow {

std::string heading_of(const RunMetric& metric) {
  return metric.unit.empty() ? metric.name : metric.name + " [" + metric.unit + "]";
}

std::string place_text(const TableView& table, double x) {
  if (x >= 0 && x < static_cast<double>(table.x_names.size())) return table.x_names[static_cast<std::size_t>(x)];
  char text[32];
  std::snprintf(text, sizeof text, "%g", x);
  return text;
}

std::vector<std::string> groups_of(const TableView& table) {
  std::vector<std::string> groups;
  for (const RunMetric& metric : table.metrics) {
    if (!metric.group.empty() && std::ranges::find(groups, metric.group) == groups.end())
      groups.push_back(metric.group);
  }
  return groups;
}

ResultSummary summary_of(const std::vector<RunResult>& results, std::size_t row, std::size_t metric) {
  constexpr double unknown = std::numeric_limits<double>::quiet_NaN();
  std::vector<double> values;
  for (const RunResult& result : results) {
    if (result.row == row && std::isfinite(result.values[metric])) values.push_back(result.values[metric]);
  }
  if (values.empty()) return {0, unknown, unknown, unknown};
  ResultSummary summary{static_cast<int>(values.size()), 0, 0, *std::ranges::max_element(values)};
  for (const double value : values) summary.mean += value / static_cast<double>(values.size());
  for (const double value : values) summary.deviation += (value - summary.mean) * (value - summary.mean);
  if (values.size() > 1) summary.deviation = std::sqrt(summary.deviation / static_cast<double>(values.size() - 1));
  return summary;
}

std::size_t size_of(const std::vector<SweepAxis>& axes) {
  std::size_t size = 1;
  for (const SweepAxis& axis : axes) size *= axis.values.size();
  return size;
}

std::vector<std::size_t> place_of(const std::vector<SweepAxis>& axes, std::size_t row) {
  std::vector<std::size_t> place(axes.size());
  for (std::size_t i = axes.size(); i-- > 0;) {
    place[i] = row % axes[i].values.size();
    row /= axes[i].values.size();
  }
  return place;
}

std::vector<SweepAxis> shown_axes(const SweepView& sweep) {
  std::vector<SweepAxis> shown = sweep.axes;
  std::erase_if(shown, [](const SweepAxis& axis) { return axis.field == seed_field; });
  return shown;
}

std::vector<RunResult> by_shown_place(const SweepView& sweep) {
  std::vector<RunResult> results = sweep.results;
  for (RunResult& result : results) {
    const std::vector<std::size_t> place = place_of(sweep.axes, result.row);
    result.row = 0;
    for (std::size_t i = 0; i < place.size(); ++i) {
      if (sweep.axes[i].field != seed_field) result.row = result.row * sweep.axes[i].values.size() + place[i];
    }
  }
  return results;
}

}  // namespace afterglow
