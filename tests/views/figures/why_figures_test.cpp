// What the plots of the page Why make of their views.
#include <gmock/gmock.h>

#include "tests/support/sample_observations.h"
#include "views/analyses/spectra/spectrum_figures.h"
#include "views/analyses/studies/study_figures.h"

namespace afterglow {
namespace {

template <class Wanted>
const Wanted& series_of(const Figure& figure, std::string_view name) {
  for (const Series& series : figure.series) {
    if (series_name(series) == name) return std::get<Wanted>(series);
  }
  throw std::out_of_range("no series " + std::string(name));
}

bool has_series(const Figure& figure, const std::string& name) {
  return std::ranges::any_of(figure.series, [&](const Series& series) { return series_name(series) == name; });
}

Figure first_of(std::vector<Figure> (*prepare)(const Observation&, const Selection&, CurveStore&),
                const Observation& seen) {
  CurveStore curves;
  return prepare(seen, {}, curves).at(0);
}

Observation with_forces(std::vector<ModeForce> modes) {
  Observation seen = samples::mid_training();
  auto view = std::make_shared<ForcesView>(*seen.forces);
  view->heads.resize(1);
  view->heads[0].modes = std::move(modes);
  seen.forces = view;
  return seen;
}

TEST(ForcesFigure, DrawsArrowsToScaleAndNoneThatMeanNothing) {
  const Observation seen = with_forces({{0.5, 1.2, 0, false, {0.01, 0}, {0, 0.002}, true, {0.5, 0.0021}},
                                        {-0.5, 1e9, 1, true, {7, 0}, {9, 0}, false, {-0.4, 0}},
                                        {0.1, 2.0, 2, false, {0, 0.01}, {0.05, 0}, false, {0.2, 0}}});
  const Figure figure = first_of(forces_figures, seen);
  const Line& step = series_of<Line>(figure, "eigenvalue 0, where AdamW moves it");
  EXPECT_NEAR(step.curve.y[1], 200 * 0.002, 1e-12) << "0.002 is drawn as 0.4";
  const Line& pull = series_of<Line>(figure, "eigenvalue 0, where the loss pulls it");
  EXPECT_NEAR(pull.curve.x[1], 0.5 + 20 * 0.01, 1e-12) << "a quarter of 0.4 would be too short, 20 is the next round";
  EXPECT_FALSE(has_series(figure, "eigenvalue 1, where the loss pulls it")) << "defective";
  EXPECT_FALSE(has_series(figure, "eigenvalue 1, where AdamW moves it"));
  EXPECT_FALSE(has_series(figure, "eigenvalue 2, where AdamW moves it")) << "the step is too long for it";
  EXPECT_TRUE(has_series(figure, "eigenvalue 2, where the loss pulls it"));
  EXPECT_THAT(figure.subtitle, testing::HasSubstr("step × 200 · pull × 20 · 2 too close to another for an arrow"));
  const auto& after = series_of<Scatter>(figure, "after the step").points;
  ASSERT_EQ(after.size(), 1u);
  EXPECT_NEAR(after[0].y, 200 * 0.0021, 1e-12);
}

TEST(ForcesFigure, TellsHowFarTrainingHasPulledBackFromSurgery) {
  Observation seen = with_forces({{0.5, 1.2, 0, false, 0.01, 0.002, true, 0.502}});
  auto view = std::make_shared<ForcesView>(*seen.forces);
  view->heads[0].operated = {0.8};
  seen.forces = view;
  const Figure figure = first_of(forces_figures, seen);
  EXPECT_THAT(figure.subtitle, testing::HasSubstr("0.3 from the weight edit's target"));
  EXPECT_EQ(series_of<Scatter>(figure, "target of the weight edit").points[0].x, 0.8);
}

TEST(MicroscopeFigure, LeavesOutWhatDoesNotDiffer) {
  const Observation seen = samples::mid_training();
  const Figure figure = first_of(microscope_figures, seen);
  EXPECT_TRUE(series_of<Line>(figure, seen.microscope->parts[0]).curve.x.empty()) << "0 has no place on a log axis";
  EXPECT_EQ(series_of<Line>(figure, "all weights").curve.x.size(), 12u);
  EXPECT_THAT(microscope_text(*seen.microscope), testing::HasSubstr("doubling every 1.7 steps"));
  const auto* first = std::get_if<std::vector<std::string>>(&figure.table.back().cells);
  ASSERT_TRUE(first);
  EXPECT_THAT(*first, testing::Contains("ridge_readout in layers.1.ska.readout, head 2, token 5"));
  auto same = *seen.microscope;
  for (double& distance : same.whole) distance = 0;
  EXPECT_THAT(microscope_text(same), testing::HasSubstr("all weights are equal after 11 steps, bit for bit"));
  Observation alike = seen;
  alike.microscope = std::make_shared<const MicroscopeView>(same);
  const Figure zero = first_of(microscope_figures, alike);
  EXPECT_EQ(zero.y.scale, Scale::linear) << "where 0 has a place";
  EXPECT_EQ(series_of<Line>(zero, "all weights").curve.y.size(), 12u);
}

TEST(BisectFigure, ShowsWhatIsNeverReachedAsLongAsWasLooked) {
  const Observation seen = samples::mid_training();
  const Figure figure = first_of(bisect_figures, seen);
  const std::vector<Bar>& bars = series_of<Bars>(figure, "first step").bars;
  EXPECT_EQ(bars[0].value, 212);
  EXPECT_EQ(bars[2].value, 1000);
  EXPECT_EQ(bars[2].ink, Ink(Role::failure));
  EXPECT_THAT(bisect_text(*seen.bisect), testing::HasSubstr("holds from step 212"));
  EXPECT_THAT(bisect_text(*seen.bisect), testing::HasSubstr("is frozen, not by step 1"));
}

TEST(OverTrainingFigure, HasTheLossOverTheSameSteps) {
  const Observation seen = samples::mid_training();
  CurveStore curves;
  const std::vector<Figure> figures = over_training_figures(seen, {}, curves);
  ASSERT_EQ(figures.size(), 2u);
  EXPECT_EQ(figures[0].x.range, figures[1].x.range);
  EXPECT_EQ(series_of<Line>(figures[0], "half_life").curve.x.size(), seen.over_training->step.size());
  EXPECT_EQ(series_of<Line>(figures[1], "loss").curve.x.size(), seen.runs.back().loss.size());
  EXPECT_THAT(over_training_subtitle(seen, {}), testing::HasSubstr("4 not computed yet"));
}

}  // namespace
}  // namespace afterglow
