// What the maps of the accuracy grid show, and where its cells lie.
#include "views/analyses/accuracy/accuracy_figures.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/sample_observations.h"

namespace afterglow {
namespace {

TEST(AccuracyFigures, HarderCellsLieAboveAndToTheRight) {
  const Observation o = samples::mid_training();
  CurveStore curves;
  const std::vector<Figure> figures = accuracy_grid_figures(o, {}, curves);
  ASSERT_EQ(figures.size(), o.accuracy->grids.size());
  const AccuracyGrid& grid = o.accuracy->grids[1];
  EXPECT_EQ(grid_of(*o.accuracy, figures[1]), &grid);
  const HeatMap& map = std::get<HeatMap>(figures[1].series[0]);
  EXPECT_EQ(map.row_labels.front(), "8");
  for (int row = 0; row < map.rows; ++row) {
    for (int column = 0; column < map.cols; ++column) {
      const AccuracyCell* cell = cell_at(grid, column + 0.4, row - 0.4);
      ASSERT_NE(cell, nullptr);
      EXPECT_EQ(std::to_string(cell->bindings), map.row_labels[static_cast<std::size_t>(row)]);
      EXPECT_EQ(std::to_string(cell->length), map.col_labels[static_cast<std::size_t>(column)]);
      const double shown = map.cells[static_cast<std::size_t>(row * map.cols + column)];
      EXPECT_TRUE(std::isnan(cell->accuracy) ? std::isnan(shown) : shown == cell->accuracy);
      EXPECT_EQ(map.is_rough[static_cast<std::size_t>(row * map.cols + column)], cell->examples < o.accuracy->examples);
    }
  }
  EXPECT_EQ(cell_at(grid, -0.6, 0), nullptr);
  EXPECT_EQ(cell_at(grid, 0, map.rows), nullptr);
  Figure other;
  other.id = "training_loss";
  EXPECT_EQ(grid_of(*o.accuracy, other), nullptr);
}

TEST(AccuracyFigures, SayWhatACellIs) {
  const Observation o = samples::mid_training();
  const AccuracyGrid& grid = o.accuracy->grids.front();
  EXPECT_EQ(cell_text(grid, grid.cells.front()), "sysprompt with 1 pair in 64 tokens: 63 of 64 answers right");
  EXPECT_THAT(cell_text(grid, *cell_at(grid, 0, 0)), testing::HasSubstr("do not fit"));
  EXPECT_THAT(cell_text(grid, *cell_at(grid, 3, 3)), testing::HasSubstr("not measured yet"));
  EXPECT_THAT(accuracy_grid_subtitle(o, {}), testing::HasSubstr(" of "));
}

TEST(AccuracyFigures, ATaskWithoutBindingsSaysWhatIsNeeded) {
  Observation o = samples::mid_training();
  o.accuracy = std::make_shared<AccuracyView>();
  CurveStore curves;
  EXPECT_TRUE(accuracy_grid_figures(o, {}, curves).empty());
  EXPECT_THAT(accuracy_grid_subtitle(o, {}), testing::HasSubstr("Needs a task with key-value pairs"));
}

}  // namespace
}  // namespace afterglow
