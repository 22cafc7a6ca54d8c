// Figures in words.
#include "core/figure/summary.h"

#include <gmock/gmock.h>

#include <cmath>

#include "tests/core/figure/example_figures.h"

namespace afterglow {
namespace {

using testing::HasSubstr;
using testing::Not;

Figure curve_figure(const std::vector<double>& y) {
  std::vector<double> x;
  for (std::size_t i = 0; i < y.size(); ++i) x.push_back(static_cast<double>(i));
  Figure figure;
  figure.title = "Loss";
  figure.subject = "tiny";
  figure.x.label = "step";
  figure.series.emplace_back(Line{"loss", {x, y}});
  return figure;
}

TEST(Summary, CurvesFallRiseOrStay) {
  EXPECT_EQ(summary_of(curve_figure({4.85, 2, 0.33})),
            "Loss, tiny. loss: falls from 4.85 at step 0 to 0.33 at step 2.");
  EXPECT_THAT(summary_of(curve_figure({1, 2})), HasSubstr("rises from 1 at step 0 to 2 at step 1"));
  EXPECT_THAT(summary_of(curve_figure({5, 5.01, 5})), HasSubstr("stays near 5 up to step 2; highest 5.01 at step 1"));
  EXPECT_THAT(summary_of(curve_figure({7})), HasSubstr("loss: 7 at step 0."));
  EXPECT_THAT(summary_of(curve_figure({})), HasSubstr("no values"));
}

TEST(Summary, AJumpIsToldWhereMostOfTheChangeIs) {
  std::vector<double> late(100, 4.0), steady;
  for (std::size_t i = 60; i < 100; ++i) late[i] = 0.5;
  for (int i = 0; i < 100; ++i) steady.push_back(100 - i);
  EXPECT_THAT(summary_of(curve_figure(late)), HasSubstr("most of it between step 5"));
  EXPECT_THAT(summary_of(curve_figure(steady)), Not(HasSubstr("most of it")));
}

TEST(Summary, ExtremesInsideAreToldAndOthersNot) {
  EXPECT_THAT(summary_of(curve_figure({1, 9, 0.2, 3})),
              testing::AllOf(HasSubstr("lowest 0.2 at step 2"), HasSubstr("highest 9 at step 1")));
  EXPECT_THAT(summary_of(curve_figure({1, 2, 3})), Not(HasSubstr("highest")));
}

TEST(Summary, WhatIsNotFiniteIsCounted) {
  EXPECT_THAT(summary_of(curve_figure({1, std::nan(""), 3})), HasSubstr("; 1 value is not finite"));
  EXPECT_THAT(summary_of(curve_figure({std::nan(""), INFINITY})), HasSubstr("no values; 2 values are not finite"));
}

TEST(Summary, BarsDotsAndMaps) {
  Figure figure;
  figure.title = "Answer";
  figure.x.label = "next token";
  figure.x.ticks = {{0, "v3"}, {1, "v7"}};
  figure.series.emplace_back(Bars{"probability", {{0, 0.1}, {1, 0.9, 0.4}}});
  EXPECT_EQ(summary_of(figure), "Answer. probability: 2 bars, largest v7: 0.9 (before 0.4), v3: 0.1.");
  figure.series.clear();
  figure.x = {"Re λ"};
  figure.y = {"Im λ"};
  figure.series.emplace_back(Scatter{"modes", {{-0.5, 0}, {0.5, 0.25}}});
  EXPECT_EQ(summary_of(figure), "Answer. modes: 2 dots, Re λ from −0.5 to 0.5, Im λ from 0 to 0.25.");
  figure.series.clear();
  HeatMap map;
  map.name = "weight";
  map.rows = 1;
  map.cols = 2;
  map.cells = std::vector<double>{-1, 3};
  map.col_labels = {"k3", "v16"};
  figure.x.label = "source token";
  figure.y.label = "query token";
  figure.series.emplace_back(map);
  EXPECT_EQ(summary_of(figure),
            "Answer. weight: 1 × 2 cells from −1 to 3, largest at query token 0, source token v16.");
}

TEST(Summary, QuietLinesAndTheNinthSeriesAreNotDescribed) {
  Figure figure = curve_figure({1, 2});
  std::get<Line>(figure.series[0]).is_quiet = true;
  EXPECT_EQ(summary_of(figure), "Loss, tiny.");
  for (int i = 0; i < 10; ++i) figure.series.emplace_back(Line{"line " + std::to_string(i), {{0.0, 1.0}, {1.0, 2.0}}});
  EXPECT_THAT(summary_of(figure), testing::AllOf(HasSubstr("line 7"), Not(HasSubstr("line 8")), HasSubstr("2 more.")));
  EXPECT_EQ(summary_of(Figure{.title = "Empty"}), "Empty. Nothing is shown yet.");
}

}  // namespace
}  // namespace afterglow
