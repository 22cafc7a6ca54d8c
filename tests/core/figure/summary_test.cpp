// Figures in words.
#include "core/figure/summary.h"

#include <gmock/gmock.h>

#include <cmath>

#include "tests/core/figure/example_figures.h"

namespace afterglow {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

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

TEST(Summary, CurvesFallRiseStayOrWaver) {
  EXPECT_EQ(summary_of(curve_figure({4.85, 2, 0.33})),
            "Loss, tiny. Over step from 0 to 2: loss: falls from 4.85 to 0.33.");
  EXPECT_THAT(summary_of(curve_figure({1, 2})), HasSubstr("rises from 1 to 2."));
  EXPECT_THAT(summary_of(curve_figure({5, 5.01, 5})), HasSubstr("stays near 5; highest 5.01 at 1."));
  EXPECT_THAT(summary_of(curve_figure({0.1, -2, 3, 0.2})),
              HasSubstr("wavers from 0.1 to 0.2; lowest −2 at 1; highest 3 at 2."));
  EXPECT_THAT(summary_of(curve_figure({7})), HasSubstr("tiny. loss: 7 at 0."));
  EXPECT_THAT(summary_of(curve_figure({})), HasSubstr("no values"));
}

TEST(Summary, TheAxisIsNamedOnceAndEndsOfTheirOwnAreTold) {
  Figure figure = curve_figure({1, 2, 3});
  figure.x = {"lag", "tokens"};
  figure.series.emplace_back(Line{"bound", {{1.0, 2.0}, {9.0, 4.0}}});
  EXPECT_EQ(summary_of(figure),
            "Loss, tiny. Over lag from 0 to 2 tokens: loss: rises from 1 to 3. bound: falls from 9 at 1 to 4.");
}

TEST(Summary, AJumpIsToldWhereMostOfTheChangeIs) {
  std::vector<double> late(100, 4.0), slope(100, 4.0), steady, decades;
  for (std::size_t i = 60; i < 100; ++i) late[i] = 0.5;
  for (std::size_t i = 60; i < 100; ++i) slope[i] = i < 66 ? 4 - 0.5 * static_cast<double>(i - 60) : 1;
  for (int i = 0; i < 100; ++i) steady.push_back(100 - i);
  for (int i = 0; i < 100; ++i) decades.push_back(std::pow(10, -0.1 * i));
  EXPECT_THAT(summary_of(curve_figure(late)), HasSubstr("falls from 4 to 0.5; a jump at 60."));
  EXPECT_THAT(summary_of(curve_figure(slope)), HasSubstr("; most of it between 5"));
  EXPECT_THAT(summary_of(curve_figure(steady)), Not(HasSubstr("most of it")));
  Figure logarithmic = curve_figure(decades);
  EXPECT_THAT(summary_of(logarithmic), HasSubstr("most of it"));
  logarithmic.y.scale = Scale::log;
  EXPECT_THAT(summary_of(logarithmic), Not(HasSubstr("most of it"))) << "a straight line as it is drawn";
}

TEST(Summary, ExtremesInsideAreToldAndOthersNot) {
  EXPECT_THAT(summary_of(curve_figure({1, 9, 0.2, 8})),
              ::testing::AllOf(HasSubstr("lowest 0.2 at 2"), HasSubstr("highest 9 at 1")));
  EXPECT_THAT(summary_of(curve_figure({1, 2, 3})), Not(HasSubstr("highest")));
}

TEST(Summary, TheHeadSaysWhatOfWhatAndWhen) {
  Figure figure = curve_figure({1, 2});
  figure.heading = "Training · Loss · tiny · step 428";
  figure.subtitle = "smoothed";
  EXPECT_THAT(summary_of(figure), ::testing::StartsWith("Training, Loss, tiny, step 428, smoothed. Over"));
  figure.heading = "Token weights · layer 1 ska, head 0 · step 428";
  figure.subtitle = "1 ska · head 0 · w v";
  EXPECT_THAT(summary_of(figure), ::testing::StartsWith("Token weights, layer 1 ska, head 0, step 428, w v. Over"))
      << "nothing is said twice";
}

TEST(Summary, LinesAcrossAndEventsAreNamed) {
  Figure figure = curve_figure({1, 2});
  figure.reference_lines = {{Orientation::horizontal, 256, "1/u bf16"}, {Orientation::vertical, 1, ""}};
  figure.events = {{1, "rate 3e−4 → 1e−3"}};
  EXPECT_THAT(summary_of(figure), ::testing::EndsWith(" Marked: 1/u bf16 at 256; rate 3e−4 → 1e−3 at step 1."));
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
  EXPECT_EQ(summary_of(figure),
            "Answer. modes: 2 dots, Re λ from −0.5 to 0.5, Im λ from 0 to 0.25; the highest at 0.5.");
  std::get<Scatter>(figure.series[0]).points.push_back({.x = 0.9, .y = 0.9, .ring = true, .id = "mode 3"});
  figure.reference_circles = {{.radius = 1}, {.radius = 0.5}};
  EXPECT_THAT(summary_of(figure),
              ::testing::EndsWith("; 1 outside the circle, the farthest 1.27 from its middle; chosen "
                                  "mode 3 at 0.9, 0.9."));
  figure.reference_circles.clear();
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
  EXPECT_EQ(summary_of(figure), "Answer. weight: 1 × 2 cells from −1 to 3 at source token v16.");
  std::get<HeatMap>(figure.series[0]).map = ColourMap::diverging;
  EXPECT_THAT(summary_of(figure), HasSubstr("from −1 at source token k3 to 3 at"));
  std::get<HeatMap>(figure.series[0]).rows = 2;
  std::get<HeatMap>(figure.series[0]).cells = std::vector<double>{-1, 3, 2, 5};
  EXPECT_THAT(summary_of(figure), HasSubstr("to 5 at query token 1, source token v16."));
}

TEST(Summary, QuietLinesAndTheNinthSeriesAreNotDescribed) {
  Figure figure = curve_figure({1, 2});
  std::get<Line>(figure.series[0]).is_quiet = true;
  EXPECT_EQ(summary_of(figure), "Loss, tiny.");
  for (int i = 0; i < 10; ++i) figure.series.emplace_back(Line{"line " + std::to_string(i), {{0.0, 1.0}, {1.0, 2.0}}});
  EXPECT_THAT(summary_of(figure),
              ::testing::AllOf(HasSubstr("line 7"), Not(HasSubstr("line 8")), HasSubstr("2 more.")));
  EXPECT_EQ(summary_of(Figure{.title = "Empty"}), "Empty. Nothing is shown yet.");
}

}  // namespace
}  // namespace afterglow
