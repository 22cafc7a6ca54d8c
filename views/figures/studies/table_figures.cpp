// Builds the figures of a table.
#include <algorithm>
#include <cctype>
#include <cmath>
#include <functional>

#include "core/figure/palette.h"
#include "core/io/number_text.h"
#include "views/figures/sheet.h"
#include "views/figures/studies/sweep_figures.h"

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

int number_of(const std::string& series, const std::vector<std::string>& names) {
  return static_cast<int>(std::find(names.begin(), names.end(), series) - names.begin());
}

/// A small dot for each run; a single one coincides with its mean and is left out.
Scatter runs_of(const TableView& table, const std::vector<RunResult>& results, const std::vector<std::string>& names,
                std::size_t metric) {
  Scatter runs{.name = "single runs"};
  for (const RunResult& result : results) {
    const TableRow& row = table.rows[result.row];
    if (!std::isfinite(result.values[metric])) continue;
    runs.points.push_back(
        {.x = row.x, .y = result.values[metric], .radius = 2, .ink = Ink(number_of(row.series, names))});
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
    y.push_back(table.is_of_best ? summary.best : summary.mean);
  }
  for (const PublishedSeries& published : table.published) {
    if (table.x_names.empty() || published.series != name || !std::isfinite(published.values[metric])) continue;
    x.insert(x.begin(), 0);
    y.insert(y.begin(), published.values[metric]);
  }
  Line line{.name = name, .curve = {x, y}};
  tell_apart(index, line);
  return line;
}

/// The curve of a series in a paper, over the places of the axis.
Curve published_curve(const TableView& table, const std::string& series, std::size_t metric) {
  std::vector<double> x, y;
  for (const PublishedSeries& point : table.published) {
    if (point.series != series || point.x == 0) continue;
    x.push_back(point.x);
    y.push_back(point.values[metric]);
  }
  return {x, y};
}

/// Published values over a numeric axis: curves, each with its own dash, and a level for a number that holds for all
/// places.
void add_published(const TableView& table, std::size_t metric, Figure& figure) {
  if (!table.x_names.empty()) return;
  std::vector<std::string> drawn;
  for (const PublishedSeries& published : table.published) {
    const double value = published.values[metric];
    if (!std::isfinite(value)) continue;
    if (published.x == 0) {
      add_level(figure, value, published.series, Role::dim, Dash::dotted);
      continue;
    }
    if (std::ranges::find(drawn, published.series) != drawn.end()) continue;
    constexpr Dash dashes[] = {Dash::dashed, Dash::dash_dot, Dash::short_dash, Dash::long_dash};
    figure.series.push_back(Line{.name = published.series + ", published",
                                 .curve = published_curve(table, published.series, metric),
                                 .ink = Role::text,
                                 .dash = dashes[drawn.size() % std::size(dashes)]});
    drawn.push_back(published.series);
  }
}

std::vector<AxisTick> ticks_of(const TableView& table) {
  std::vector<AxisTick> ticks;
  for (const TableRow& row : table.rows) {
    const bool known = std::any_of(ticks.begin(), ticks.end(), [&](const AxisTick& tick) { return tick.at == row.x; });
    if (!known) ticks.push_back({row.x, place_text(table, row.x)});
  }
  return ticks;
}

/// "recall", "recall, hard" as "recall", "hard".
std::vector<AxisTick> with_short_variants(std::vector<AxisTick> ticks) {
  std::string family;
  for (AxisTick& tick : ticks) {
    if (!family.empty() && tick.label.starts_with(family + ", ")) {
      tick.label.erase(0, family.size() + 2);
    } else {
      family = tick.label;
    }
  }
  return ticks;
}

/// One curve through the metrics of a group: mean over seeds of a row and their spread, or published values.
void add_group_curve(const TableView& table, const std::string& group, Line line, Figure& figure,
                     const std::function<ResultSummary(std::size_t metric)>& value) {
  std::vector<double> x, y, deviation;
  for (std::size_t m = 0; m < table.metrics.size(); ++m) {
    if (table.metrics[m].group != group) continue;
    const ResultSummary summary = value(m);
    if (!std::isfinite(summary.mean)) continue;
    x.push_back(table.metrics[m].at);
    y.push_back(summary.mean);
    deviation.push_back(summary.deviation);
  }
  if (x.empty()) return;
  line.curve = {x, y};
  const bool has_spread = std::ranges::any_of(deviation, [](double spread) { return spread > 0; });
  if (has_spread) return add_with_spread(line, deviation, figure);
  figure.series.emplace_back(std::move(line));
}

/// The metrics of a group over their conditions, of the rows at one place of the table's axis.
Figure group_figure(const TableView& table, const std::vector<RunResult>& results, const std::string& group,
                    std::size_t number, const AxisTick& place) {
  Figure figure = sheet(
      "table_" + table.name + "_group_" + std::to_string(number) + "_" + std::to_string(std::lround(place.at)), group,
      place.label + (table.published.empty() ? "" : " · dashed: published"), {table.group_label, table.group_unit}, {});
  figure.x.scale = Scale::log;
  const bool is_share =
      std::ranges::any_of(table.metrics, [&](const RunMetric& m) { return m.group == group && m.is_share; });
  figure.y.label = is_share ? "accuracy" : group;
  if (is_share) figure.y.range = Range{0, 1.02};
  const std::vector<std::string> names = series_of(table);
  const auto line_of = [&](const std::string& series) {
    Line line;
    tell_apart(number_of(series, names), line);
    return line;
  };
  for (const RunMetric& metric : table.metrics) {
    if (metric.group == group) figure.x.ticks.push_back({metric.at, shortest(metric.at)});
  }
  for (std::size_t row = 0; row < table.rows.size(); ++row) {
    if (table.rows[row].x != place.at) continue;
    Line line = line_of(table.rows[row].series);
    line.name = table.rows[row].series;
    line.dash = dash_of_round(Dash::solid, line.ink.index / palette_size);
    add_group_curve(table, group, line, figure, [&](std::size_t m) { return summary_of(results, row, m); });
  }
  if (figure.series.empty()) return figure;
  for (const PublishedSeries& published : table.published) {
    Line line = line_of(published.series);
    line.name = published.series + ", paper";
    line.dash = Dash::dashed;
    line.width = 1.4;
    add_group_curve(table, group, line, figure, [&](std::size_t m) {
      return ResultSummary{1, published.values[m], 0, published.values[m]};
    });
  }
  return figure;
}

/// The same runs with held-out evaluations in place of the training losses.
std::vector<RunResult> held_out_curves(std::vector<RunResult> results) {
  for (RunResult& result : results) {
    result.sketch.step = result.sketch.held_out_step;
    result.sketch.loss = result.sketch.held_out_accuracy;
  }
  return results;
}

/// Groups without places only go into files of numbers.
bool is_drawn(const TableView& table, const std::string& group) {
  return std::ranges::any_of(table.metrics,
                             [&](const RunMetric& m) { return m.group == group && std::isfinite(m.at); });
}

/// The training of the runs at one place of the axis, mean and spread over their seeds. `about`: "training".
Figure training_of(const TableView& table, const std::vector<RunResult>& results, const AxisTick& place,
                   const std::string& about) {
  const std::string where = table.x_label + " " + place.label + (table.x_unit.empty() ? "" : " " + table.x_unit);
  Figure figure =
      training_figure("table_" + table.name + "_" + about + "_" +
                          (table.x_names.empty() ? place.label : std::to_string(std::lround(place.at))),
                      where + (has_several_seeds(results) ? " · mean and one standard deviation" : ""), {"loss", ""});
  const std::vector<std::string> names = series_of(table);
  for (std::size_t row = 0; row < table.rows.size(); ++row) {
    const std::string& series = table.rows[row].series;
    if (table.rows[row].x == place.at) add_training(results, row, series, number_of(series, names), figure);
  }
  return figure;
}

/// "Mamba-2, 4 pairs" is a kind under a condition; a name without a comma has no condition.
std::pair<std::string, std::string> kind_and_condition(const std::string& series) {
  const std::size_t comma = series.rfind(", ");
  if (comma == std::string::npos) return {series, ""};
  return {series.substr(0, comma), series.substr(comma + 2)};
}

/// The conditions of a table that has every kind under every condition and more series than a figure has colours; else
/// empty.
std::vector<std::string> conditions_of(const TableView& table) {
  const std::vector<std::string> names = series_of(table);
  std::vector<std::string> kinds, conditions;
  for (const std::string& name : names) {
    const auto [kind, condition] = kind_and_condition(name);
    if (condition.empty()) return {};
    if (std::ranges::find(kinds, kind) == kinds.end()) kinds.push_back(kind);
    if (std::ranges::find(conditions, condition) == conditions.end()) conditions.push_back(condition);
  }
  const bool is_grid = kinds.size() > 1 && kinds.size() * conditions.size() == names.size();
  return is_grid && names.size() > palette_size ? conditions : std::vector<std::string>{};
}

std::vector<Figure> figures_under(const std::string& condition, const TableView& table,
                                  const std::vector<RunResult>& results) {
  TableView part = table;
  part.rows.clear();
  part.title += ", " + condition;
  part.name += "_";
  for (const char c : condition) part.name += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  std::vector<RunResult> under;
  for (std::size_t row = 0; row < table.rows.size(); ++row) {
    const auto [kind, its_own] = kind_and_condition(table.rows[row].series);
    if (its_own != condition) continue;
    for (RunResult result : results) {
      if (result.row != row) continue;
      result.row = part.rows.size();
      under.push_back(std::move(result));
    }
    part.rows.push_back(table.rows[row]);
    part.rows.back().series = kind;
  }
  part.published.clear();
  for (const PublishedSeries& published : table.published) {
    const auto [kind, its_own] = kind_and_condition(published.series);
    if (its_own != condition) continue;
    part.published.push_back(published);
    part.published.back().series = kind;
  }
  return table_figures(part, under);
}

}  // namespace

std::vector<Figure> table_figures(const TableView& table, const std::vector<RunResult>& results) {
  std::vector<Figure> figures;
  const std::vector<std::string> conditions = conditions_of(table);
  for (const std::string& condition : conditions) {
    for (Figure& figure : figures_under(condition, table, results)) figures.push_back(std::move(figure));
  }
  if (!conditions.empty()) return figures;
  for (std::size_t metric = 0; metric < table.metrics.size(); ++metric) {
    if (!table.metrics[metric].group.empty()) continue;
    Figure figure = sheet("table_" + table.name + "_" + std::to_string(metric), table.title, table.about,
                          {table.x_label, table.x_unit}, {});
    figure.x.scale = table.x_logarithmic ? Scale::log : Scale::linear;
    figure.x.ticks = table.x_names.empty() ? ticks_of(table) : with_short_variants(ticks_of(table));
    if (!table.published.empty() && !table.x_names.empty())
      figure.x.ticks.insert(figure.x.ticks.begin(), {0, place_text(table, 0)});
    figure.y = {table.metrics[metric].name, table.metrics[metric].unit};
    if (table.metrics[metric].is_share) figure.y.range = Range{0, 1.02};
    const std::vector<std::string> names = series_of(table);
    for (std::size_t i = 0; i < names.size(); ++i) {
      Line line = means_of(table, results, names[i], static_cast<int>(i), metric);
      if (!line.curve.x.empty()) figure.series.emplace_back(std::move(line));
    }
    if (!figure.series.empty()) add_published(table, metric, figure);
    if (!figure.series.empty() && has_several_seeds(results))
      figure.series.emplace_back(runs_of(table, results, names, metric));
    if (!figure.series.empty()) figures.push_back(std::move(figure));
  }
  const std::vector<std::string> groups = groups_of(table);
  for (std::size_t group = 0; group < groups.size(); ++group) {
    if (!is_drawn(table, groups[group])) continue;
    for (const AxisTick& place : ticks_of(table)) {
      Figure figure = group_figure(table, results, groups[group], group, place);
      if (!figure.series.empty()) figures.push_back(std::move(figure));
    }
  }
  // Held-out evaluations are accuracies if the table's own numbers are shares.
  const bool has_accuracy = std::ranges::any_of(table.metrics, &RunMetric::is_share);
  const std::vector<RunResult> held_out = has_accuracy ? held_out_curves(results) : std::vector<RunResult>{};
  for (const AxisTick& place : ticks_of(table)) {
    Figure training = training_of(table, results, place, "training");
    if (!training.series.empty()) figures.push_back(std::move(training));
    Figure learning = training_of(table, held_out, place, "accuracy");
    learning.title = "Learning";
    learning.y = {"held-out accuracy", "", Scale::linear, Range{0, 1.02}};
    if (!learning.series.empty()) figures.push_back(std::move(learning));
  }
  return figures;
}

}  // namespace afterglow
