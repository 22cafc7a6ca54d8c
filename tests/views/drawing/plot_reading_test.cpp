// What is read off a plot: values, cells, dots, laws between two cursors, as text.
#include "views/figures/plot_reading.h"

#include <gtest/gtest.h>

#include <cmath>

namespace afterglow {
namespace {

FigureView cursors(double a, double b) {
  FigureView view;
  view.mark_a = a;
  view.mark_b = b;
  return view;
}

Figure law_figure(Scale x_scale, Scale y_scale, double (*law)(double)) {
  std::vector<double> x, y;
  for (int i = 1; i <= 2000; ++i) {
    x.push_back(i);
    y.push_back(law(i));
  }
  Line line;
  line.name = "law";
  line.curve.x = x;
  line.curve.y = y;
  Figure figure;
  figure.x.label = "lag";
  figure.x.unit = "tokens";
  figure.x.scale = x_scale;
  figure.y.scale = y_scale;
  figure.series.emplace_back(line);
  return figure;
}

TEST(PlotReading, MeasuresDifferenceRatioAndSlope) {
  const auto m =
      measure(law_figure(Scale::linear, Scale::linear, [](double x) { return 3 * x + 1; }), cursors(10, 30)).at(0);
  EXPECT_DOUBLE_EQ(m.difference, 60);
  EXPECT_DOUBLE_EQ(m.ratio, 91.0 / 31);
  EXPECT_NEAR(m.slope, 3, 1e-9);
  EXPECT_EQ(m.law, "slope 3");
}

TEST(PlotReading, RecoversExponentsAndHalfLives) {
  EXPECT_NEAR(
      measure(law_figure(Scale::log, Scale::log, [](double x) { return 1 / x; }), cursors(20, 1200)).at(0).slope, -1,
      0.01);
  const auto m =
      measure(law_figure(Scale::linear, Scale::log, [](double x) { return std::pow(0.97, x); }), cursors(10, 200))
          .at(0);
  EXPECT_NEAR(std::log10(2.0) / -m.slope, std::log(0.5) / std::log(0.97), 0.01 * 22.8);
  EXPECT_EQ(m.law, "half-life 22.8 tokens");
}

TEST(PlotReading, SaysTheErrorOfAFitAndLeavesBoundsOut) {
  Figure figure =
      law_figure(Scale::log, Scale::log, [](double x) { return std::exp(0.3 * std::sin(31 * x)) / std::sqrt(x); });
  Line bound = std::get<Line>(figure.series[0]);
  bound.name = "bound";
  bound.is_quiet = true;
  figure.series.emplace_back(bound);
  const auto all = measure(figure, cursors(5, 500));
  ASSERT_EQ(all.size(), 1u) << "a bound goes with its line";
  EXPECT_GT(all[0].error, 0);
  EXPECT_LT(std::abs(all[0].slope + 0.5), 2 * all[0].error);
  EXPECT_NE(all[0].law.find(" ± "), std::string::npos) << all[0].law;
  EXPECT_TRUE(std::isinf(measure(figure, cursors(5, 6)).at(0).error)) << "two points";
  EXPECT_EQ(values_at(figure, {}, 17).size(), 2u);
}

TEST(PlotReading, MeasurementsTakeALineEach) {
  Figure figure = law_figure(Scale::log, Scale::log, [](double x) { return 1 / x; });
  std::get<Line>(figure.series[0]).name = "1 sessa: lag^−1 ± 0.1";
  auto lines = measurement_lines(figure, cursors(10, 1000));
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0].name, "A 10   B 1000");
  EXPECT_EQ(lines[0].value, "Δx 990 tokens");
  EXPECT_EQ(lines[1].name, "1 sessa");
  EXPECT_EQ(lines[1].value, "Δy −0.099  B/A 0.01  power law, exponent −1");
  while (figure.series.size() < 12) figure.series.push_back(figure.series[0]);
  lines = measurement_lines(figure, cursors(10, 1000));
  EXPECT_EQ(lines.size(), 10u) << "so that the plot stays in sight";
  EXPECT_EQ(lines.back().name, "4 more");
}

TEST(PlotReading, ValuesAreThoseOfTheNearestPoints) {
  const Figure figure = law_figure(Scale::linear, Scale::linear, [](double x) { return 2 * x; });
  const auto lines = values_at(figure, {}, 17.3);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[1].name, "law");
  EXPECT_EQ(lines[1].value, "34");
  EXPECT_TRUE(values_at(Figure{}, {}, 1).empty());
}

TEST(PlotReading, ValuesSayWhereTheyAreWhenTheCursorIsNot) {
  Figure figure = law_figure(Scale::linear, Scale::linear, [](double x) { return 2 * x; });
  EXPECT_EQ(values_at(figure, {}, 17.3)[0].value, "17") << "the place of the value, not of the cursor";
  EXPECT_EQ(values_at(figure, {}, 1e9)[0].value, "2000");
  Line shorter = std::get<Line>(figure.series[0]);
  shorter.name = "shorter";
  shorter.curve.x = std::vector<double>{5, 6, 7};
  shorter.curve.y = std::vector<double>{1, 2, 3};
  figure.series.emplace_back(shorter);
  const auto lines = values_at(figure, {}, 20);
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0].value, "20");
  EXPECT_EQ(lines[1].value, "40");
  EXPECT_EQ(lines[2].value, "3 at 7");
}

TEST(PlotReading, CellsOfHeatMapsHaveTheNamesOfTheirRowAndColumn) {
  HeatMap map;
  map.name = "weight";
  map.rows = map.cols = 2;
  map.cells = std::vector<double>{1, 2, 3, 4};
  Figure figure;
  figure.x.label = "source token";
  figure.y.label = "query token";
  figure.series.emplace_back(map);
  auto lines = cell_at(figure, 1.2, 0.4);
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0].value, "2");
  EXPECT_EQ(lines[1].name, "query token");
  EXPECT_EQ(lines[1].value, "0");
  EXPECT_EQ(lines[2].name, "source token");
  EXPECT_EQ(lines[2].value, "1");
  EXPECT_TRUE(cell_at(figure, 5, 5).empty());
  auto& shown = std::get<HeatMap>(figure.series[0]);
  shown.row_labels = shown.col_labels = {"k3", "v16"};
  lines = cell_at(figure, 1, 0);
  EXPECT_EQ(lines[1].value, "k3");
  EXPECT_EQ(lines[2].value, "v16");
  shown.col_labels = {"v16", "v16"};
  EXPECT_EQ(cell_at(figure, 1, 0)[2].value, "1 v16") << "which of the two";
  shown.cells = std::vector<double>{1, std::nan(""), 3, 4};
  EXPECT_EQ(cell_at(figure, 1, 0)[0].value, "NaN");
  shown.nan_is_blank = true;
  EXPECT_TRUE(cell_at(figure, 1, 0).empty()) << "nothing is there";
}

TEST(PlotReading, OfManyCurvesThoseNextToThePointerAreRead) {
  Figure figure;
  for (int i = 0; i < 40; ++i) {
    Line line;
    line.name = "curve " + std::to_string(i);
    line.curve.x = std::vector<double>{0, 1};
    line.curve.y = std::vector<double>{1.0 * i, 1.0 * i};
    figure.series.emplace_back(line);
  }
  const auto near = values_at(figure, {}, 0, 30);
  ASSERT_EQ(near.size(), 18u) << "the place, sixteen curves, and how many are left out";
  EXPECT_EQ(near[1].name, "curve 22") << "as near as curve 38, and before it";
  EXPECT_EQ(near[16].name, "curve 37");
  EXPECT_EQ(near[17].name, "24 more");
  const auto first = values_at(figure, {}, 0);
  EXPECT_EQ(first[1].name, "curve 0");
  EXPECT_EQ(first[16].name, "curve 15");
}

TEST(PlotReading, PlacesWithATickAreCalledByItsName) {
  Figure figure = law_figure(Scale::linear, Scale::linear, [](double x) { return 2 * x; });
  figure.x.label = "layer input";
  figure.x.ticks = {{1, "0 mamba2"}, {2, "1 ska"}};
  EXPECT_EQ(values_at(figure, {}, 2.2)[0].value, "1 ska");
  EXPECT_EQ(values_at(figure, {}, 7.1)[0].value, "7");
}

TEST(PlotReading, DotsSayWhatTheyAreAndWhere) {
  Figure figure;
  figure.x.label = "time per token";
  figure.x.unit = "ms";
  figure.y.label = "state";
  Scatter scatter;
  scatter.name = "layers";
  scatter.points.push_back({0.02, 4096, 5, 2, false, "mamba2 initial", "mamba2"});
  figure.series.emplace_back(scatter);
  const auto lines = point_lines(figure, {});
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0].name, "mamba2 initial");
  EXPECT_EQ(lines[1].value, "0.02 ms");
  EXPECT_EQ(lines[2].value, "4096");
}

TEST(PlotReading, ReadingsOfLinkedPlotsAreOneListThatSaysNothingTwice) {
  const auto line = [](const char* name, const char* value) { return ReadingLine{name, value, Role::dim, false}; };
  const PlotReading first{"All tails", {{"lag", "37", Role::dim, true}, line("ska", "0.2"), line("gka", "0.1")}};
  const PlotReading same{"ska", {{"lag", "37", Role::dim, true}, line("ska", "0.2")}},
      recall{"Recall", {{"lag", "36", Role::dim, true}, line("ska", "1")}};
  auto all = joined_readings(first, {same, recall});
  ASSERT_EQ(all.size(), 4u);
  EXPECT_EQ(all[3].name, "Recall");
  EXPECT_EQ(all[3].value, "1 at 36") << "where it was read, as that is elsewhere";
  const PlotReading both{"Recall", {{"lag", "37", Role::dim, true}, line("ska", "1"), line("gka", "0.9")}};
  all = joined_readings(first, {both});
  ASSERT_EQ(all.size(), 6u);
  EXPECT_EQ(all[3].name, "Recall");
  EXPECT_TRUE(all[3].is_heading);
  EXPECT_EQ(all[4].value, "1");
  const PlotReading long_one{"Long", std::vector<ReadingLine>(30, line("x", "9"))};
  all = joined_readings(first, {long_one, recall, long_one});
  EXPECT_LE(all.size(), 20u);
  EXPECT_EQ(all.back().name, "2 plots more");
}

TEST(PlotReading, ABoxOfMeasurementsKeepsOffTheCurve) {
  // A curve through three corners and along most edges leaves the middle free.
  Figure figure;
  figure.id = "plot";
  Line line;
  line.name = "frame";
  line.curve.x = std::vector<double>{0, 10, 10, 0, 0, 9};
  line.curve.y = std::vector<double>{0, 0, 10, 10, 1, 1};
  figure.series.emplace_back(line);
  FigureGeometry geometry;
  geometry.plot = {0, 0, 400, 300};
  geometry.x = AxisTransform(Scale::linear, {0, 10}, 0, 400);
  geometry.y = AxisTransform(Scale::linear, {0, 10}, 300, 0);
  const Rect box = free_place(figure, geometry, {120, 60}, 4);
  const std::span<const double> x = line.curve.x.span(), y = line.curve.y.span();
  for (std::size_t i = 1; i < x.size(); ++i) {
    for (double t = 0; t <= 1; t += 0.01) {
      const Point on = geometry.to_canvas(x[i - 1] + t * (x[i] - x[i - 1]), y[i - 1] + t * (y[i] - y[i - 1]));
      EXPECT_FALSE(box.contains(on)) << on.x << ", " << on.y;
    }
  }
}

}  // namespace
}  // namespace afterglow
