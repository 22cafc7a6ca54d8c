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
    if (!metric.group.empty() && std::find(groups.begin(), groups.end(), metric.group) == groups.end())
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
  ResultSummary summary{static_cast<int>(values.size()), 0, 0, *std::max_element(values.begin(), values.end())};
  for (const double value : values) summary.mean += value / static_cast<double>(values.size());
  for (const double value : values) summary.deviation += (value - summary.mean) * (value - summary.mean);
  if (values.size() > 1) summary.deviation = std::sqrt(summary.deviation / static_cast<double>(values.size() - 1));
  return summary;
}

}  // namespace afterglow
