// Figures that compare trainings: Gated KalmaNet's figure 6, and gradient norms of several runs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/recipe/recipe.h"
#include "tests/views/figures/figure_parts.h"
#include "views/figures/studies/paper_figures.h"
#include "views/figures/training/training_figures.h"

namespace afterglow {
namespace {

RunCurves run_of(const std::string& name, std::initializer_list<double> losses, std::initializer_list<double> norms) {
  RunCurves run;
  run.run = name;
  run.loss = run.accuracy = run.learning_rate = losses;
  run.gradient_norm = norms;
  return run;
}

void expect_end(const Series& series, const std::string& name, double last) {
  const Line& line = std::get<Line>(series);
  EXPECT_EQ(line.name, name);
  ASSERT_TRUE(line.curve.pyramid);
  EXPECT_DOUBLE_EQ(line.curve.pyramid->y(line.curve.pyramid->size() - 1), last);
}

TEST(GkaFigure6, ShowsBothRegularisations) {
  const std::vector runs{run_of("a", {3, 2, 1}, {0.5, 0.4, 0.3}), run_of("b", {3, 3, 3}, {0.5, 9, 0.6})};
  const Figure loss = regularisation_figure(0, runs, 7), norm = regularisation_figure(1, runs, 7);
  EXPECT_EQ(loss.id, "gka_figure6a");
  EXPECT_EQ(norm.id, "gka_figure6b");
  ASSERT_EQ(loss.series.size(), 2u);
  ASSERT_EQ(norm.series.size(), 2u);
  expect_end(loss.series[1], "constant, λ = 0.25", 3);  // smoothed, and the raw values behind
  EXPECT_TRUE(std::get<Line>(loss.series[0]).raw.pyramid);
  expect_end(norm.series[0], "adaptive, λ_t = 0.02 |H_t|", 0.3);
  expect_end(norm.series[1], "constant, λ = 0.25", 0.6);
  EXPECT_THAT(norm.subtitle, testing::StartsWith("3 steps"));
}

TEST(GkaFigure6, ItsPresetsDifferInTheRidgeAlone) {
  nlohmann::json adaptive = nlohmann::json::parse(find_preset("gka-adaptive").text),
                 constant = nlohmann::json::parse(find_preset("gka-constant").text);
  nlohmann::json& mixer = constant["model"]["blocks"][0]["mixer"];
  EXPECT_EQ(mixer["fixed_lambda"], 0.25);
  mixer.erase("fixed_lambda");
  for (const char* key : {"model", "task", "training", "seed"}) EXPECT_EQ(adaptive[key], constant[key]) << key;
}

TEST(TrainingFigures, SeedsOfOneRecipeAreTheirMeanAndSpread) {
  Observation observation;
  observation.runs = {run_of("seed 1", {3, 2, 1}, {1, 1, 1}), run_of("another", {9, 9, 9}, {9, 9, 9}),
                      run_of("begun", {7}, {7}), run_of("seed 2", {5, 4}, {3, 1})};
  observation.runs[0].siblings = observation.runs[2].siblings = observation.runs[3].siblings = "a";
  observation.runs[1].siblings = "b";
  observation.runs[2].seed = observation.runs[3].seed = 2;  // the longer one of a seed counts
  Selection selection;
  selection.smoothing = 0;
  selection.earlier = EarlierRuns::seeds;
  CurveStore curves;
  const std::vector<Figure> figures = training_figures(observation, selection, curves);
  for (const Figure& figure : figures) {
    ASSERT_EQ(figure.series.size(), 3U) << figure.id;
    EXPECT_EQ(std::get<Line>(figure.series[0]).name, "mean of 2 seeds");
  }
  EXPECT_THAT(heights(figures[1].series[0]), testing::ElementsAre(4, 3, 1)) << "of the runs that reach a step";
  const double deviation = std::sqrt(2.0);
  EXPECT_THAT(heights(figures[1].series[1]), testing::ElementsAre(4 + deviation, 3 + deviation, 1));
  EXPECT_THAT(heights(figures[2].series[2]), testing::ElementsAre(2 - deviation, 1, 1));
  EXPECT_THAT(training_subtitle(observation, selection), testing::HasSubstr("of 2 seeds"));
  observation.runs[0].siblings = "c";
  EXPECT_EQ(training_figures(observation, selection, curves)[1].series.size(), 1U) << "alone";
  EXPECT_THAT(training_subtitle(observation, selection), testing::HasSubstr("no other seed yet"));
}

TEST(TrainingFigures, AnAccuracyThatNoAxisShowsIsNone) {
  Observation observation;
  Selection selection;
  selection.smoothing = 0;
  const auto ends = [&](double last) {
    observation.runs = {run_of("run 1", {0.5, last}, {1, 1})};
    CurveStore curves;
    const std::vector<Figure> figures = training_figures(observation, selection, curves);
    const auto end_of = [&](std::size_t i) { return std::get<Line>(figures[i].series[0]).end_value; };
    return std::vector{end_of(0), end_of(1)};
  };
  EXPECT_THAT(ends(5e-8), testing::ElementsAre("0", number_text(5e-8, 3))) << "a loss may be as small";
  EXPECT_THAT(ends(0.132), testing::ElementsAre("0.132", "0.132"));
}

TEST(TrainingFigures, GradientNormsOfEarlierRunsLieBehind) {
  Observation observation;
  observation.runs = {run_of("constant", {3, 3}, {8, 9}), run_of("adaptive", {3, 2}, {0.5, 0.4})};
  Selection selection;
  selection.smoothing = 0;
  CurveStore curves;
  const Figure figure = training_figures(observation, selection, curves)[2];
  ASSERT_EQ(figure.series.size(), 2u);
  expect_end(figure.series[0], "all, constant", 9);
  expect_end(figure.series[1], "all", 0.4);
}

TEST(TrainingFigures, GradientNormsOfLayersThatShareAColourDifferInTheirDashes) {
  Observation observation;
  observation.runs = {run_of("run 1", {3, 2}, {8, 9})};
  for (const char* kind : {"embedding", "gka", "swiglu", "mamba2", "mamba3", "head"}) {
    observation.model.layers.push_back({std::string("0 ") + kind, "", kind, "", 0, 0, 0});
    observation.runs[0].layer_gradient_norms.push_back({std::string("0 ") + kind, {1, 2}});
  }
  CurveStore curves;
  const Figure figure = training_figures(observation, {}, curves)[2];
  ASSERT_EQ(figure.series.size(), 7u);
  for (std::size_t i = 0; i < figure.series.size(); ++i) {
    const Line& line = std::get<Line>(figure.series[i]);
    for (std::size_t j = 0; j < i; ++j) {
      const Line& other = std::get<Line>(figure.series[j]);
      EXPECT_FALSE(line.ink == other.ink && line.dash == other.dash) << line.name << " as " << other.name;
    }
  }
}

TEST(TrainingFigures, WhatLiesAheadIsGreyBeyondTheNowLine) {
  Observation observation;
  observation.step = 2;
  observation.latest_step = 4;
  observation.runs = {run_of("run 1", {4, 3}, {8, 7})};
  observation.ahead = run_of("run 1", {4, 3, 2, 1}, {8, 7, 6, 5});
  observation.ahead->marks = {{1, "clip 1 → 2"}, {1, "batch 4 → 8"}, {3, "clip 2 → 3"}};
  Selection selection;
  selection.smoothing = 0;
  CurveStore curves;
  for (const Figure& figure : training_figures(observation, selection, curves)) {
    const Line &ahead = std::get<Line>(figure.series.at(figure.series.size() - 2)),
               &now = std::get<Line>(figure.series.back());
    EXPECT_EQ(ahead.ink, Ink(Role::faint)) << figure.id;
    EXPECT_EQ(ahead.curve.pyramid->size(), 4u);
    EXPECT_LT(ahead.width, now.width) << "the present curve covers it";
    EXPECT_EQ(now.curve.pyramid->size(), 2u);
    ASSERT_EQ(std::ranges::count(figure.reference_lines, Orientation::vertical, &ReferenceLine::orientation), 1);
    EXPECT_EQ(figure.reference_lines.back().at, 2);
    EXPECT_EQ(figure.reference_lines.back().label, "now");
    ASSERT_EQ(figure.events.size(), 2u) << "one mark a step";
    EXPECT_EQ(figure.events[0].text, "clip 1 → 2, batch 4 → 8");
    EXPECT_EQ(figure.events[0].ink, Ink(Role::warning));
    EXPECT_EQ(figure.events[1].ink, Ink(Role::faint));
  }
  EXPECT_THAT(training_subtitle(observation, selection), testing::HasSubstr("after now"));
  observation.ahead.reset();
  for (const Figure& figure : training_figures(observation, selection, curves))
    EXPECT_EQ(std::ranges::count(figure.reference_lines, Orientation::vertical, &ReferenceLine::orientation), 0);
}

}  // namespace
}  // namespace afterglow
