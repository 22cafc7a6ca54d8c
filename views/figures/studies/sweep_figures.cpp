// Builds the figures of a sweep.
#include "views/figures/studies/sweep_figures.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/engine/observation/run_numbers.h"
#include "core/figure/axis.h"
#include "core/figure/contour.h"
#include "core/figure/palette.h"
#include "core/io/number_text.h"
#include "core/recipe/recipe.h"

namespace afterglow {
namespace {

constexpr double unknown = std::numeric_limits<double>::quiet_NaN();
constexpr std::size_t max_trainings = 8;  // curves that fit into one figure

std::string value_label(const std::string& value) {
  const std::optional<double> number = parse_number(value);
  return number ? number_text(*number, 3) : value;
}

std::size_t seeds_of(const SweepView& sweep) {
  for (const SweepAxis& axis : sweep.axes) {
    if (axis.field == seed_field) return axis.values.size();
  }
  return 1;
}

Figure figure_of(const SweepView& sweep, const RunMetric& metric) {
  const std::size_t seeds = seeds_of(sweep);
  return Figure{.id = "sweep_" + name_word(metric.name),
                .title = sweep.name + ": " + words_of(metric.name),
                .subtitle = seeds > 1 ? "mean over " + std::to_string(seeds) + " seeds" : "",
                .recipe = sweep.recipe};
}

Figure line_figure(const SweepView& sweep, const SweepAxis& axis, std::size_t metric) {
  Figure figure = figure_of(sweep, sweep.metrics[metric]);
  figure.x.label = words_of(axis.field);
  figure.y = {words_of(sweep.metrics[metric].name), sweep.metrics[metric].unit};
  if (sweep.metrics[metric].is_share) figure.y.range = Range{0, 1.02};
  const bool has_numbers =
      std::ranges::all_of(axis.values, [](const std::string& value) { return parse_number(value).has_value(); });
  if (axis.is_logarithmic) figure.x.scale = Scale::log;
  const std::vector<RunResult> results = by_shown_place(sweep);
  std::vector<double> x, mean, deviation;
  Scatter runs{.name = "single runs"};
  for (std::size_t i = 0; i < axis.values.size(); ++i) {
    const double at = has_numbers ? *parse_number(axis.values[i]) : static_cast<double>(i);
    if (!has_numbers) figure.x.ticks.push_back({at, axis.values[i]});
    const ResultSummary summary = summary_of(results, i, metric);
    for (const RunResult& result : results) {
      if (result.row == i && std::isfinite(result.values[metric]))
        runs.points.push_back({.x = at, .y = result.values[metric], .radius = 2});
    }
    if (summary.runs == 0) continue;
    x.push_back(at);
    mean.push_back(summary.mean);
    deviation.push_back(summary.deviation);
  }
  Line line{.name = sweep.metrics[metric].name, .curve = {x, mean}, .marker = Marker::automatic};
  if (seeds_of(sweep) > 1) {
    add_with_spread(line, deviation, figure);
    figure.series.emplace_back(std::move(runs));
  } else {
    figure.series.emplace_back(std::move(line));
  }
  return figure;
}

/// Values by their place in the grid; NaN without a run.
std::vector<double> grid_of(const SweepView& sweep, std::size_t cells, std::size_t metric) {
  const std::vector<RunResult> results = by_shown_place(sweep);
  std::vector<double> sum(cells, 0), count(cells, 0);
  for (const RunResult& result : results) {
    if (!std::isfinite(result.values[metric])) continue;
    sum[result.row] += result.values[metric];
    ++count[result.row];
  }
  for (std::size_t i = 0; i < cells; ++i) sum[i] = count[i] > 0 ? sum[i] / count[i] : unknown;
  return sum;
}

/// The losses of a sketch at these steps, linear between its points; NaN after its end.
std::vector<double> losses_at(const TrainingSketch& sketch, const std::vector<double>& steps) {
  std::vector<double> losses;
  std::size_t next = 0;
  for (const double step : steps) {
    while (next < sketch.step.size() && sketch.step[next] < step) ++next;
    if (next == sketch.step.size()) {
      losses.push_back(unknown);
    } else if (next == 0) {
      losses.push_back(sketch.loss[0]);
    } else {
      const double share = (step - sketch.step[next - 1]) / (sketch.step[next] - sketch.step[next - 1]);
      losses.push_back(sketch.loss[next - 1] + share * (sketch.loss[next] - sketch.loss[next - 1]));
    }
  }
  return losses;
}

}  // namespace

std::string words_of(std::string name) {
  if (name == "kappa") return "condition number κ";
  name = label_of_field(name);
  std::ranges::replace(name, '_', ' ');
  return name;
}

std::string place_name(const std::vector<SweepAxis>& axes, std::size_t row) {
  const std::vector<std::size_t> place = place_of(axes, row);
  std::string name;
  for (std::size_t i = 0; i < axes.size(); ++i)
    name += (i > 0 ? "; " : "") + words_of(axes[i].field) + ": " + value_label(axes[i].values[place[i]]);
  return name;
}

Dash dash_of_round(Dash first, int round) {
  // Dotted comes last, because it marks bounds of a curve (add_with_spread).
  constexpr Dash others[] = {Dash::solid,     Dash::dash_dot,   Dash::dashed,
                             Dash::long_dash, Dash::short_dash, Dash::dotted};
  std::vector<Dash> dashes{first};
  for (const Dash other : others) {
    if (other != first) dashes.push_back(other);
  }
  return dashes[static_cast<std::size_t>(round) % dashes.size()];
}

void tell_apart(int index, Line& line) {
  const int round = index / palette_size;  // the number of times that all colours have been used
  line.ink = Ink(index);
  line.dash = round == 0 ? Dash::automatic : dash_of_round(ink_dash(line.ink), round);
  line.marker = round == 0 ? Marker::automatic : ink_marker(Ink(index + round));
}

void add_with_spread(const Line& mean, std::span<const double> deviation, Figure& figure) {
  const bool is_colour_again = mean.ink.role == Role::series && mean.ink.index >= palette_size;
  figure.series.emplace_back(mean);
  for (const double side : {1.0, -1.0}) {
    Line edge = mean;
    edge.name = mean.name + (side > 0 ? " + one deviation" : " − one deviation");
    edge.marker = Marker::none;
    edge.dash = is_colour_again ? Dash::short_dash : Dash::dotted;
    edge.width = 1.2;
    edge.is_quiet = true;
    std::vector<double> y;
    for (std::size_t i = 0; i < deviation.size(); ++i) y.push_back(mean.curve.y[i] + side * deviation[i]);
    edge.curve.y = y;
    figure.series.emplace_back(std::move(edge));
  }
}

void add_training(const std::vector<RunResult>& results, std::size_t row, const std::string& name, int index,
                  Figure& figure) {
  std::vector<double> steps;
  for (const RunResult& result : results) {
    if (result.row == row && result.sketch.step.size() > steps.size()) steps = result.sketch.step;
  }
  std::vector<RunResult> points;  // each step becomes a row, so that means and deviations are computed as for a table
  for (const RunResult& result : results) {
    if (result.row != row || result.sketch.step.empty()) continue;
    const std::vector<double> losses = losses_at(result.sketch, steps);
    for (std::size_t i = 0; i < losses.size(); ++i) points.push_back({i, result.seed, 0, "", {losses[i]}, {}});
  }
  std::vector<double> x, mean, deviation;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const ResultSummary summary = summary_of(points, i, 0);
    if (summary.runs == 0) continue;
    x.push_back(steps[i]);
    mean.push_back(summary.mean);
    deviation.push_back(summary.deviation);
  }
  if (x.empty()) return;
  Line line{.name = name, .curve = {x, mean}};
  tell_apart(index, line);
  line.marker = Marker::none;  // the points of a sketch are close together
  const bool has_spread = std::ranges::any_of(deviation, [](double value) { return value > 0; });
  if (has_spread) {
    add_with_spread(line, deviation, figure);
  } else {
    figure.series.emplace_back(std::move(line));
  }
}

Figure training_figure(const std::string& id, const std::string& subtitle, const RunMetric& loss) {
  Figure figure{.id = id, .title = "Training", .subtitle = subtitle, .x = {"step", ""}};
  figure.x.integer_ticks = true;
  figure.y = {"training " + loss.name, loss.unit};
  return figure;
}

/// Lines of equal value on a complete map, at round numbers of its colours.
void add_contours(const std::vector<double>& cells, int rows, int columns, const RunMetric& metric, Figure& figure) {
  constexpr int max_levels = 4;
  Extent found;
  for (const double cell : cells) found.add(cell);
  if (!(found.high > found.low)) return;
  const Range range{found.low, found.high};
  for (const Tick& level : choose_ticks({}, {Scale::linear, range, 0, 1}, max_levels)) {
    if (level.is_minor || level.at <= range.low || level.at >= range.high) continue;
    int part = 0;
    for (ContourLine& contour : contour_lines(cells, rows, columns, level.at)) {
      Line line{.name = metric.name + " " + level.label + (part > 0 ? ", part " + std::to_string(part + 1) : ""),
                .ink = Role::warning,
                .dash = Dash::solid,
                .width = 1.4,
                .is_quiet = true};
      const std::size_t middle = contour.x.size() / 2;
      if (part++ == 0) figure.text_labels.push_back({contour.x[middle], contour.y[middle], level.label, Role::warning});
      line.curve = {std::move(contour.x), std::move(contour.y), nullptr};
      figure.series.emplace_back(std::move(line));
    }
  }
}

Figure phase_figure(const SweepView& sweep, std::size_t metric) {
  const std::vector<SweepAxis> axes = shown_axes(sweep);
  const std::size_t columns = axes[0].values.size(), rows = axes[1].values.size();
  const std::vector<double> grid = grid_of(sweep, columns * rows, metric);
  std::vector<bool> finished(columns * rows, false);
  for (const RunResult& result : by_shown_place(sweep)) finished[result.row] = true;
  Figure figure = figure_of(sweep, sweep.metrics[metric]);
  figure.x.label = words_of(axes[0].field);
  figure.y.label = words_of(axes[1].field);
  HeatMap map{.name = sweep.metrics[metric].name,
              .rows = static_cast<int>(rows),
              .cols = static_cast<int>(columns),
              .value = {words_of(sweep.metrics[metric].name), sweep.metrics[metric].unit},
              .nan_is_blank = true};
  std::vector<double> cells;
  for (std::size_t row = rows; row-- > 0;) {  // the largest value of the axis on top
    map.row_labels.push_back(value_label(axes[1].values[row]));
    for (std::size_t column = 0; column < columns; ++column) {
      std::size_t from = column * rows + row;
      for (std::size_t stride = 2; !finished[from] && stride < 2 * std::max(columns, rows); stride *= 2)
        from = (column - column % stride) * rows + row - row % stride;
      cells.push_back(grid[from]);
    }
  }
  map.cells = cells;
  for (const std::string& value : axes[0].values) map.col_labels.push_back(value_label(value));
  // The axes show the places of the dots.
  for (std::size_t i = 0; i < columns; ++i) figure.x.ticks.push_back({static_cast<double>(i), map.col_labels[i]});
  for (std::size_t i = 0; i < rows; ++i) figure.y.ticks.push_back({static_cast<double>(i), map.row_labels[i]});
  figure.series.emplace_back(std::move(map));
  if (std::ranges::find(finished, false) == finished.end())
    add_contours(cells, static_cast<int>(rows), static_cast<int>(columns), sweep.metrics[metric], figure);
  return figure;
}

std::vector<Figure> sweep_figures(const SweepView& sweep, std::span<const std::size_t> drawn) {
  std::vector<Figure> figures;
  const std::vector<SweepAxis> axes = shown_axes(sweep);
  for (const std::size_t metric : drawn) {
    if (axes.size() == 1) figures.push_back(line_figure(sweep, axes[0], metric));
    if (axes.size() == 2) figures.push_back(phase_figure(sweep, metric));
  }
  const std::size_t places = size_of(axes);
  if (places > max_trainings) return figures;
  const std::size_t seeds = seeds_of(sweep);
  Figure training = training_figure(
      "sweep_training", seeds > 1 ? "mean and one standard deviation of " + std::to_string(seeds) + " seeds" : "",
      sweep.metrics[0]);
  const std::vector<RunResult> results = by_shown_place(sweep);
  for (std::size_t row = 0; row < places; ++row)
    add_training(results, row, axes.empty() ? sweep.name : place_name(axes, row), static_cast<int>(row), training);
  training.recipe = sweep.recipe;
  if (!training.series.empty()) figures.push_back(std::move(training));
  return figures;
}

}  // namespace afterglow
