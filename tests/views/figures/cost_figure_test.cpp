// Echo's table 1 as figures: measured curves, and dashed ones that grow as the table says.
#include <gtest/gtest.h>

#include "tests/views/figures/figure_parts.h"
#include "views/figures/studies/paper_figures.h"

namespace afterglow {
namespace {

TEST(CostFigure, DashedLinesGoThroughTheLastPointWithThePowerOfTheTable) {
  const CostView costs{128,
                       {{"attention", "attention", {10, 20, 40}, {1, 5, 12}, {7, 8, 9}, {2, 3, 6}, {10, 20, 40}, 2, 1},
                        {"SKA", "ska", {10, 20, 40}, {1, 2, 3}, {7, 8, 9}, {5, 5, 5}, {30, 30, 30}, 1, 0}}};
  const Figure pass = cost_figure(0, costs), state = cost_figure(2, costs), memory = cost_figure(3, costs);
  EXPECT_EQ(pass.x.scale, Scale::log);
  EXPECT_EQ(pass.y.unit, "ms");
  EXPECT_EQ(heights(series<Line>(pass, "attention")), (std::vector<double>{1, 5, 12}));
  EXPECT_EQ(heights(series<Line>(pass, "attention, ∝ T²")), (std::vector<double>{0.75, 3, 12}));
  EXPECT_EQ(heights(series<Line>(pass, "SKA, ∝ T")), (std::vector<double>{0.75, 1.5, 3}));
  EXPECT_EQ(heights(series<Line>(state, "attention, ∝ T")), (std::vector<double>{10, 20, 40}));
  EXPECT_EQ(heights(series<Line>(state, "SKA, ∝ 1")), (std::vector<double>{30, 30, 30}));
  EXPECT_EQ(memory.series.size(), 2u) << "the table says nothing of it";
  EXPECT_EQ(memory.id, "echo_table1_d");
}

TEST(CostFigure, ACurveEndsWhereTheMeasurementIs) {
  const CostView costs{64, {{"SKA", "ska", {10, 20, 40}, {1, 2}, {1, 2}, {}, {}, 1, 0}}};
  const Figure pass = cost_figure(0, costs);
  EXPECT_EQ(series<Line>(pass, "SKA").curve.x.size(), 2u);
  EXPECT_EQ(heights(series<Line>(pass, "SKA, ∝ T")), (std::vector<double>{1, 2}));
}

TEST(CostFigure, LeavesOutWhatWasNotMeasured) {
  EXPECT_TRUE(cost_figure(1, {64, {{"SKA", "ska", {10}, {1}, {1}, {}, {}, 1, 0}}}).series.empty());
}

}  // namespace
}  // namespace afterglow
