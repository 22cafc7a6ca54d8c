// What the figures of the influence laboratory say about measurements whose laws are known.
#include "views/figures/influence_figures.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/analysis/influence.h"
#include "core/figure/decimate.h"
#include "tests/support/sample_influence.h"
#include "tests/support/sample_observations.h"

namespace afterglow {
namespace {

const Line* line_that_starts(const Figure& figure, const std::string& start) {
  for (const Series& series : figure.series) {
    const auto* line = std::get_if<Line>(&series);
    if (line && line->name.rfind(start, 0) == 0) return line;
  }
  return nullptr;
}

std::vector<Figure> figures_of(std::vector<Figure> (*make)(const Observation&, const Selection&, CurveStore&),
                               const Observation& observation, const Selection& selection = {}) {
  CurveStore curves;
  return make(observation, selection, curves);
}

TEST(InfluenceFigures, NameTheLawOfEveryLayerAndTheSilentOnes) {
  const Observation o = samples::mid_training();
  const std::vector<Figure> figures = figures_of(influence_figures, o);
  ASSERT_EQ(figures.size(), 2u);
  EXPECT_EQ(figures[0].id, "influence_blocks");
  EXPECT_TRUE(line_that_starts(figures[0], "0 mamba2: half-life 6.93"));
  EXPECT_TRUE(line_that_starts(figures[0], "1 sessa: lag^−0.4"));
  EXPECT_TRUE(line_that_starts(figures[0], "2 ska: no influence yet"));
  EXPECT_TRUE(line_that_starts(figures[0], "whole stack: lag^−0.4"));
}

TEST(InfluenceFigures, TheoryMeetsTheMeasuredTailAndFollowsItsOwnLaw) {
  const Observation o = samples::mid_training();
  const Figure figure = figures_of(influence_figures, o)[0];
  const Line* exponential = line_that_starts(figure, "exp(−0.1 lag)");
  const Line* measured = line_that_starts(figure, "0 mamba2");
  ASSERT_TRUE(exponential && measured);
  const CurveView theory(exponential->curve), tail(measured->curve);
  ASSERT_EQ(theory.size(), tail.size());
  for (std::size_t i = 0; i < theory.size(); ++i) EXPECT_NEAR(theory.y(i), tail.y(i), 1e-9);
  const Line* uniform = line_that_starts(figure, "uniform routing, γ = 0.6");
  ASSERT_TRUE(uniform);
  const CurveView closed(uniform->curve);
  for (std::size_t i = 1; i < closed.size(); ++i) {
    EXPECT_NEAR(closed.y(i) / closed.y(0),
                uniform_routing_influence(0.6, 3, closed.x(i)) / uniform_routing_influence(0.6, 3, closed.x(0)), 1e-9);
  }
}

TEST(InfluenceFigures, RaceStartsEveryTailAtOneAndHasAColumnForEach) {
  const Observation o = samples::mid_training();
  const std::vector<Figure> figures = figures_of(race_figures, o);
  ASSERT_EQ(figures.size(), race_overviews + 2 * race_figures_of_a_layer) << "three overviews, two columns";
  for (const Series& series : figures[0].series) {
    const CurveView curve(std::get<Line>(series).curve);
    EXPECT_EQ(curve.y(0), 1);
  }
  EXPECT_TRUE(line_that_starts(figures[0], "sessa: 1 % > ")) << std::get<Line>(figures[0].series[0]).name;
  const Line* recall = line_that_starts(figures[1], "mamba2");
  ASSERT_TRUE(recall);
  EXPECT_EQ(CurveView(recall->curve).y(0), o.influence->race->entries[1].recall[0]);
  EXPECT_EQ(std::get<Scatter>(figures[2].series[0]).points[0].y, 24576);

  const HeatMap& state = std::get<HeatMap>(figures[3].series[0]);
  EXPECT_EQ(figures[3].id, "race_1_sessa_state");
  EXPECT_EQ(state.rows, 12);
  EXPECT_EQ(state.cols, 8);
  EXPECT_EQ(state.cells[5], static_cast<double>(o.influence->race->entries[0].state[5]));
  EXPECT_THAT(figures[3].subtitle, testing::HasSubstr("0.04 ms per token · state · 12 × 8"));
  EXPECT_EQ(figures[4].x.range, figures[7].x.range);
  EXPECT_EQ(figures[4].y.range, figures[7].y.range);
  EXPECT_EQ(figures[4].title, "sessa");
  EXPECT_EQ(figures[8].id, "race_2_mamba2_recall");
  EXPECT_EQ(figures[8].x.range, figures[7].x.range) << "the lags of a column stand over each other";
}

TEST(InfluenceFigures, RoutingShowsWhatTheKindHas) {
  const Observation o = samples::mid_training();
  const auto ids = [](const std::vector<Figure>& figures) {
    std::string text;
    for (const Figure& figure : figures) text += figure.id + " ";
    return text;
  };
  EXPECT_EQ(ids(figures_of(routing_figures, o)),
            "routing_feedback routing_resolvent routing_hops routing_gain routing_effective routing_spread ")
      << "a feedback comes first";
  Selection mamba;
  mamba.layer = 1;
  EXPECT_EQ(ids(figures_of(routing_figures, o, mamba)), "routing_weights routing_decay ");
}

TEST(InfluenceFigures, PositionCodeRisesAndStandsAloneWithoutAFeedback) {
  const Observation o = samples::mid_training();
  const Figure seen = figures_of(position_code_figures, o)[0];
  const Line* code = line_that_starts(seen, "sessa");
  ASSERT_TRUE(code);
  const CurveView values(code->curve);
  EXPECT_EQ(values.y(0), 1);
  EXPECT_GT(values.y(values.size() - 1), 1.5);
  EXPECT_EQ(figures_of(position_code_figures, samples::nothing())[0].series.size(), 3u);
}

TEST(InfluenceFigures, DeepProfilesMeasureTheExponentsOfTheTheorem) {
  const Figure figure = figures_of(deep_profiles_figures, samples::nothing())[0];
  EXPECT_TRUE(line_that_starts(figure, "k = 1, decaying: lag^−0.5"));
  EXPECT_TRUE(line_that_starts(figure, "k = 2, frozen: lag^0"));
  EXPECT_TRUE(line_that_starts(figure, "k = 3, increasing: lag^0.5"));
}

}  // namespace
}  // namespace afterglow
