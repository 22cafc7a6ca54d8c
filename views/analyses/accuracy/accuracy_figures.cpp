// Builds the maps of the accuracy grid; its row among the plots.
#include "views/analyses/accuracy/accuracy_figures.h"

#include <cmath>

#include "core/figure/axis.h"
#include "views/figures/semantic_colours.h"
#include "views/figures/sheet.h"
#include "views/plots/families.h"

namespace afterglow {
namespace {

constexpr std::string_view id_prefix = "accuracy_grid_";

/// Rows from many pairs to few, so that harder cells are at the top and to the right.
std::size_t index_of_cell(const AccuracyGrid& grid, std::size_t row, std::size_t column) {
  return (grid.bindings.size() - 1 - row) * grid.lengths.size() + column;
}

HeatMap map_of(const AccuracyGrid& grid, std::int64_t examples) {
  HeatMap map{.name = "accuracy",
              .rows = static_cast<int>(grid.bindings.size()),
              .cols = static_cast<int>(grid.lengths.size()),
              .value = {.label = "accuracy", .range = Range{0, 1}},
              .shows_numbers = true,
              .nan_is_blank = true};
  std::vector<double> cells;
  for (std::size_t row = 0; row < grid.bindings.size(); ++row) {
    map.row_labels.push_back(std::to_string(grid.bindings[grid.bindings.size() - 1 - row]));
    for (std::size_t column = 0; column < grid.lengths.size(); ++column) {
      const AccuracyCell& cell = grid.cells[index_of_cell(grid, row, column)];
      cells.push_back(cell.accuracy);
      map.is_rough.push_back(cell.examples < examples);
    }
  }
  for (const int length : grid.lengths) map.col_labels.push_back(std::to_string(length));
  map.cells = std::move(cells);
  return map;
}

std::vector<TableColumn> table_of(const AccuracyGrid& grid) {
  std::vector<double> bindings, lengths, examples, accuracy;
  for (const AccuracyCell& cell : grid.cells) {
    if (!cell.fits) continue;
    bindings.push_back(cell.bindings);
    lengths.push_back(cell.length);
    examples.push_back(static_cast<double>(cell.examples));
    accuracy.push_back(cell.accuracy);
  }
  return {{"bindings", bindings}, {"length", lengths}, {"sequences", examples}, {"accuracy", accuracy}};
}

Figure grid_figure(const AccuracyView& view, const AccuracyGrid& grid) {
  Figure figure =
      sheet(std::string(id_prefix) + grid.task, grid.task,
            grid.is_own ? "the model was trained on this task with " + grouped_number(view.own_length) + " tokens"
                        : "the model was never trained on this task",
            {.label = "length", .unit = "tokens"}, {"key-value pairs"}, LabelPlacement::none);
  HeatMap map = map_of(grid, view.examples);
  figure.x.ticks = ticks_of(map.col_labels);
  figure.y.ticks = ticks_of(map.row_labels);
  figure.series.emplace_back(std::move(map));
  figure.table = table_of(grid);
  return figure;
}

}  // namespace

std::string accuracy_grid_subtitle(const Observation& observation, const Selection&) {
  if (!observation.accuracy) return why_not_yet(observation, "Measuring the first cells: starts within seconds.");
  const AccuracyView& view = *observation.accuracy;
  if (view.grids.empty()) return "Needs a task with key-value pairs and a length, such as sysprompt, niah or mqar.";
  std::string text = "held-out accuracy";
  if (!view.is_complete)
    text += " · " + std::to_string(view.measured) + " of " + std::to_string(view.planned) + " cells with all " +
            std::to_string(view.examples) + " sequences, the others with fewer";
  else
    text += " on " + std::to_string(view.examples) + " sequences each";
  return text + age_text(observation, view.step);
}

std::vector<Figure> accuracy_grid_figures(const Observation& observation, const Selection&, CurveStore&) {
  std::vector<Figure> figures;
  if (!observation.accuracy) return figures;
  for (const AccuracyGrid& grid : observation.accuracy->grids)
    figures.push_back(grid_figure(*observation.accuracy, grid));
  return figures;
}

const AccuracyGrid* grid_of(const AccuracyView& view, const Figure& figure) {
  if (!figure.id.starts_with(id_prefix)) return nullptr;
  return find_by(view.grids, figure.id.substr(id_prefix.size()), &AccuracyGrid::task);
}

const AccuracyCell* cell_at(const AccuracyGrid& grid, double x, double y) {
  const long column = std::lround(x), row = std::lround(y);
  if (column < 0 || row < 0 || column >= static_cast<long>(grid.lengths.size()) ||
      row >= static_cast<long>(grid.bindings.size()))
    return nullptr;
  return &grid.cells[index_of_cell(grid, static_cast<std::size_t>(row), static_cast<std::size_t>(column))];
}

std::string cell_text(const AccuracyGrid& grid, const AccuracyCell& cell) {
  const std::string what = grid.task + " with " + std::to_string(cell.bindings) +
                           (cell.bindings == 1 ? " pair in " : " pairs in ") + grouped_number(cell.length) +
                           " tokens: ";
  if (!cell.fits) return what + "so many pairs do not fit";
  if (cell.asked == 0) return what + "not measured yet";
  return what + grouped_number(cell.right) + " of " + grouped_number(cell.asked) + " answers right";
}

namespace {

std::string accuracy_grid_numbers(const Observation& o, const Selection&) {
  if (!o.accuracy || o.accuracy->grids.empty()) return "";
  const AccuracyGrid& grid = o.accuracy->grids.front();
  return grid.cells.empty() ? "" : cell_text(grid, grid.cells.front());
}

constexpr PlotRow accuracy_rows[] = {
    {"accuracy_grid", set_of(Analysis::accuracy), LayerTrait::tokens, accuracy_grid_subtitle, accuracy_grid_figures}};
constexpr CardNumbers accuracy_card_numbers[] = {{"accuracy_grid", accuracy_grid_numbers}};

}  // namespace

PlotFamily accuracy_plots() { return {accuracy_rows, accuracy_card_numbers}; }

}  // namespace afterglow
