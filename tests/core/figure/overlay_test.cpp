// Two runs in one figure.
#include "core/figure/overlay.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "core/figure/decimate.h"
#include "core/figure/files/csv_writer.h"
#include "core/figure/layout.h"
#include "core/figure/readout.h"
#include "core/figure/render.h"
#include "tests/core/figure/recording_canvas.h"

namespace afterglow {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

Figure figure_with(Series series) {
  Figure figure{.id = "loss", .title = "Loss", .subtitle = "tiny", .x = {"step"}, .y = {"loss"}};
  figure.series.push_back(std::move(series));
  return figure;
}

Figure over(const Figure& a, const Figure& b) { return overlaid_figures({a}, {b}, "tiny, step 9", "no b").front(); }

Figure curve(std::vector<double> y) { return figure_with(Line{"loss", {{1, 2, 3}, std::move(y)}, {}, Ink(1)}); }

TEST(Overlay, CurvesOfBAreOutlinedAndTheSubtitleNamesTheLargestDifference) {
  const Figure both = over(curve({5, 4, 3}), curve({5, 4.5, 1}));
  ASSERT_EQ(both.series.size(), 2u);
  const Line& b = std::get<Line>(both.series[1]);
  EXPECT_EQ(b.name, "B: loss");
  EXPECT_TRUE(b.is_outlined);
  EXPECT_FALSE(std::get<Line>(both.series[0]).is_outlined);
  EXPECT_THAT(both.subtitle, StartsWith("B is outlined, and differs most at loss, step 3: 3 → 1 · tiny"));
  EXPECT_THAT(both.heading, HasSubstr("B: tiny, step 9"));
  EXPECT_THAT(over(curve({5, 4, 3}), curve({5, 4, 3})).subtitle,
              StartsWith("B is outlined, and equal where both have values · tiny"));
  EXPECT_THAT(over(figure_with(Line{"loss"}), curve({5, 4, 3})).subtitle, StartsWith("B is outlined · tiny"))
      << "A has no values";
}

TEST(Overlay, ALoggedLossWithoutAUnitIsDrawnWithALossInNats) {
  Figure b = curve({5, 4, 3});
  b.y = {.label = "cross-entropy", .unit = "nats"};
  EXPECT_THAT(over(curve({5, 4, 2}), b).subtitle, StartsWith("B is outlined"));
  b.id = "another";
  EXPECT_THAT(over(curve({5, 4, 2}), b).subtitle, StartsWith("A alone, because B has other axes"));
}

TEST(Overlay, ADecadeCountsOnALogarithmicAxis) {
  Figure a = curve({100, 4, 3}), b = curve({90, 4, 0.3});
  EXPECT_THAT(over(a, b).subtitle, HasSubstr("step 1"));
  a.y.scale = b.y.scale = Scale::log;
  EXPECT_THAT(over(a, b).subtitle, HasSubstr("step 3"));
}

TEST(Overlay, ModesAreMatchedByDistanceAndTakeTheColourAndNumberOfA) {
  const auto mode = [](int number, double x, double y) {
    return ScatterPoint{x, y, 4, Ink(number), false, "mode " + std::to_string(number), "", 1, {number}};
  };
  Figure a = figure_with(Scatter{"eigenvalues", {mode(0, 0.9, 0.1), mode(1, -0.5, 0)}});
  Figure b = figure_with(Scatter{"eigenvalues", {mode(0, -0.4, 0), mode(1, 0.5, 0.1), mode(2, 0, 0.9)}});
  a.equal_aspect = b.equal_aspect = true;
  const auto both = std::get<Scatter>(over(a, b).series[1]);
  EXPECT_TRUE(both.is_outlined);
  EXPECT_EQ(both.points[0].mode.number, 1);
  EXPECT_EQ(both.points[0].ink, Ink(1));
  EXPECT_EQ(both.points[1].id, "B: mode 0");
  EXPECT_EQ(both.points[2].mode.number, -1) << "A has no third mode";
  ASSERT_EQ(both.trails.size(), 2u);
  EXPECT_THAT(over(a, b).subtitle, HasSubstr("mode 0: 0.906 → 0.51"));
}

TEST(Overlay, BarsOfOneNameStandAtOnePlaceAndNewNamesFollow) {
  const auto answers = [](std::vector<std::string> names, std::vector<double> shares) {
    Bars bars{"probability"};
    Figure figure = figure_with(bars);
    for (std::size_t i = 0; i < names.size(); ++i) {
      std::get<Bars>(figure.series[0]).bars.push_back({static_cast<double>(i), shares[i]});
      figure.x.ticks.push_back({static_cast<double>(i), names[i]});
    }
    figure.x.range = Range{-0.6, 1.6};
    return figure;
  };
  const Figure both = over(answers({"v3", "v9"}, {0.9, 0.1}), answers({"v9", "v4"}, {0.7, 0.3}));
  const Bars& b = std::get<Bars>(both.series[1]);
  EXPECT_EQ(b.bars[0].x, 1);
  EXPECT_EQ(b.bars[1].x, 2);
  ASSERT_EQ(both.x.ticks.size(), 3u);
  EXPECT_EQ(both.x.ticks[2].label, "v4");
  EXPECT_GE(both.x.range->high, 2.5);
  EXPECT_THAT(both.subtitle, HasSubstr("v9: 0.1 → 0.7"));
}

TEST(Overlay, AMapIsFollowedByTheDifferenceAndByThatOfB) {
  const auto map = [](int rows, std::vector<double> cells) {
    return figure_with(HeatMap{.name = "w", .rows = rows, .cols = 2, .cells = std::move(cells)});
  };
  const auto figures = overlaid_figures({map(1, {1, 2})}, {map(1, {1, 0.5})}, "b", "");
  ASSERT_EQ(figures.size(), 3u);
  EXPECT_EQ(figures[1].id, "loss_difference");
  EXPECT_EQ(figures[2].id, "loss_b");
  const auto& difference = std::get<HeatMap>(figures[1].series[0]);
  EXPECT_DOUBLE_EQ(difference.cells[1], -1.5);
  EXPECT_EQ(*difference.value.range, (Range{-1.5, 1.5}));
  EXPECT_THAT(figures[0].subtitle, StartsWith("B − A is at most 1.5 · tiny"));
  const auto colours = [&](std::size_t i) { return color_range(std::get<HeatMap>(figures[i].series[0]), {}); };
  EXPECT_EQ(colours(0), colours(2)) << "equal numbers have equal colours";
  EXPECT_LE(colours(0).low, 0.5);
  EXPECT_GE(colours(0).high, 2);
  const auto alone = overlaid_figures({map(1, {1, 2})}, {map(1, {1, 0.5})}, "b", "", true);
  ASSERT_EQ(alone.size(), 1u) << "both runs are left out";
  EXPECT_EQ(alone[0].id, "loss_difference");
  const auto unlike = overlaid_figures({map(1, {1, 2})}, {map(2, {1, 2, 3, 4})}, "b", "", true);
  EXPECT_EQ(unlike.size(), 2u);
  EXPECT_THAT(unlike[0].subtitle, StartsWith("B has 2 × 2 cells · tiny"));
}

TEST(Overlay, WhatBLacksIsSaid) {
  EXPECT_THAT(overlaid_figures({curve({1, 2, 3})}, {}, "b", "Needs an SKA layer.")[0].subtitle,
              StartsWith("A alone: Needs an SKA layer. · tiny"));
  Figure other = curve({1, 2, 3});
  other.x.unit = "tokens";
  const Figure both = over(curve({1, 2, 3}), other);
  EXPECT_EQ(both.series.size(), 1u);
  EXPECT_THAT(both.subtitle, StartsWith("A alone"));
}

TEST(Overlay, OfBarsToTheRightTheEndsOfBAreDotsAndOtherRowsStandInAFigureOfTheirOwn) {
  Figure a = figure_with(Scatter{"lost", {{.x = 0.3, .y = 0, .radius = 1, .id = "mode 1", .presence = 0}}}), b = a;
  a.y.ticks = b.y.ticks = {{0, "mode 1"}};
  a.x.range = Range{0, 0.4};
  b.x.range = Range{0, 0.7};
  std::get<Scatter>(b.series[0]).points[0].x = 0.6;
  a.x.ticks = {{0, "0"}, {0.4, "0.4"}};
  b.x.ticks = {{0, "0"}, {0.7, "0.7"}};
  const Figure both = over(a, b);
  ASSERT_EQ(both.x.ticks.size(), 2u) << "numbers are no categories";
  EXPECT_EQ(both.x.ticks[1].at, 0.7);
  EXPECT_EQ(over(b, a).x.ticks[1].at, 0.7);
  const ScatterPoint& end = std::get<Scatter>(both.series[1]).points[0];
  EXPECT_EQ(end.x, 0.6);
  EXPECT_EQ(end.presence, 1);
  EXPECT_GT(end.radius, 2);
  EXPECT_THAT(both.subtitle, StartsWith("B is outlined, and differs most at mode 1: 0.3 → 0.6"));
  b.y.ticks = {{0, "mode 2"}};
  const auto figures = overlaid_figures({a}, {b}, "b", "");
  ASSERT_EQ(figures.size(), 2u);
  EXPECT_THAT(figures[0].subtitle, StartsWith("B has other rows and follows"));
  EXPECT_EQ(figures[1].id, "loss_b");
  EXPECT_EQ(figures[1].title, "B: Loss");
  EXPECT_EQ(figures[0].x.range, figures[1].x.range);
}

TEST(Overlay, AnOutlineIsAWideStrokeWithANarrowOneInTheGroundsColourOnIt) {
  RecordingCanvas canvas;
  render_figure(over(curve({5, 4, 3}), curve({5, 4.5, 1})), light_theme(), {}, {0, 0, 400, 300}, canvas);
  const auto& lines = canvas.polylines;
  const auto ground = std::ranges::find(lines, light_theme().panel, [](const auto& line) { return line.stroke.color; });
  ASSERT_GT(ground, lines.begin());
  ASSERT_LT(ground, lines.end());
  EXPECT_EQ(ground->points.front().x, (ground - 1)->points.front().x);
  EXPECT_GT((ground - 1)->stroke.width, 2 * ground->stroke.width);
}

TEST(Overlay, TheFileHasBothRuns) {
  const std::string csv = csv_text(over(curve({5, 4, 3}), curve({5, 4.5, 1})));
  EXPECT_THAT(csv, StartsWith("step,loss,B: loss\r\n"));
  EXPECT_EQ(stem_of("B: half-life: 12 tokens"), "B: half-life");
}

}  // namespace
}  // namespace afterglow
