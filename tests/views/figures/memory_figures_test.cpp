// What the figures of training's memory and of forecasts say about views whose numbers are known.
#include "views/analyses/memory/memory_figures.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/figure/decimate.h"
#include "tests/support/sample_observations.h"
#include "tests/views/figures/figure_parts.h"
#include "views/figures/semantic_colours.h"
#include "views/figures/training/training_figures.h"
#include "views/plots/plot_kinds.h"

namespace afterglow {
namespace {

TEST(TrajectoryFigures, DotsAreTheRecordedStepsAndGrowStronger) {
  CurveStore curves;
  const Observation o = samples::mid_training();
  const auto figures = trajectory_figures(o, {}, curves);
  ASSERT_EQ(figures.size(), 2u);
  EXPECT_EQ(figures[0].id, "trajectory_12");
  EXPECT_EQ(figures[1].id, "trajectory_13");
  EXPECT_EQ(figures[0].x.label, "mode 1 · 70 %");
  const Scatter path = series<Scatter>(figures[1], "path of training");
  ASSERT_EQ(path.points.size(), o.trajectory->steps.size());
  for (std::size_t t = 0; t < path.points.size(); ++t) {
    EXPECT_EQ(step_of_point(path.points[t].id), o.trajectory->steps[t]);
    EXPECT_EQ(path.points[t].x, o.trajectory->path[0][t]);
    EXPECT_EQ(path.points[t].y, o.trajectory->path[2][t]);
    EXPECT_EQ(path.points[t].ring, t + 1 == path.points.size());
    EXPECT_TRUE(t < 2 || path.points[t].presence > path.points[t - 1].presence);
  }
  EXPECT_EQ(path.points.front().label, "start");
  EXPECT_EQ(path.points.back().presence, 1);
}

TEST(TrajectoryFigures, OnlyNamesOfStepsAreSteps) {
  EXPECT_EQ(step_of_point("step 120"), 120);
  EXPECT_EQ(step_of_point("mode 3"), -1);
  EXPECT_EQ(step_of_point("step 12x"), -1);
  EXPECT_EQ(step_of_point("step "), -1);
  EXPECT_EQ(step_of_point(""), -1);
}

TEST(TrajectoryFigures, LossOfAStepIsItsOwn) {
  Observation o = samples::mid_training();
  EXPECT_EQ(loss_at(o, 1), o.runs.back().loss[0]);
  EXPECT_EQ(loss_at(o, 428), o.runs.back().loss[427]);
  EXPECT_TRUE(std::isnan(loss_at(o, 0)));
  EXPECT_TRUE(std::isnan(loss_at(o, 429)));
  o.runs.back().first_step = 301;
  EXPECT_EQ(loss_at(o, 301), o.runs.back().loss[0]);
}

TEST(KlSpectrumFigures, BothStrategiesBesideEachOther) {
  CurveStore curves;
  const Observation o = samples::mid_training();
  const auto figures = kl_spectrum_figures(o, {}, curves);
  ASSERT_EQ(figures.size(), 3u);
  EXPECT_EQ(figures[0].y.scale, Scale::log);
  const Line eigenvalues = series<Line>(figures[0], "A");
  EXPECT_EQ(CurveView(eigenvalues.curve).x(0), 1);
  EXPECT_EQ(CurveView(eigenvalues.curve).y(0), 1);
  EXPECT_NEAR(CurveView(eigenvalues.curve).y(2), 0.09, 1e-12);
  const Line a = series<Line>(figures[1], "A"), b = series<Line>(figures[1], "B");
  EXPECT_EQ(CurveView(a.curve).x(0), 0);
  EXPECT_EQ(CurveView(a.curve).y(0), 1);
  EXPECT_NEAR(CurveView(a.curve).y(2), 0.3, 1e-12);
  EXPECT_GT(CurveView(b.curve).y(2), CurveView(a.curve).y(2));
  const Line kept = series<Line>(figures[2], "A");
  for (std::size_t k = 0; k < o.trajectory->explained.size(); ++k)
    EXPECT_NEAR(CurveView(kept.curve).y(k + 1), o.trajectory->explained[k], 1e-12);
  EXPECT_NE(kl_spectrum_subtitle(o, {}).find("95 % of the variance in 3 modes"), std::string::npos);
}

TEST(TemporalModesFigures, StandOverTheirSteps) {
  CurveStore curves;
  const Observation o = samples::mid_training();
  const auto figures = temporal_modes_figures(o, {}, curves);
  ASSERT_EQ(figures.size(), 2u);
  const Line mode = series<Line>(figures[0], "mode 2");
  const CurveView seen(mode.curve);
  ASSERT_EQ(seen.size(), o.trajectory->steps.size());
  EXPECT_EQ(seen.x(5), static_cast<double>(o.trajectory->steps[5]));
  EXPECT_EQ(seen.y(5), o.trajectory->empirical.modes[1][5]);
}

TEST(TrajectoryFigures, WaitForTheSecondRecordedStep) {
  CurveStore curves;
  for (const Observation& o : {samples::nothing(), samples::one_step()}) {
    EXPECT_TRUE(trajectory_figures(o, {}, curves).empty());
    EXPECT_TRUE(kl_spectrum_figures(o, {}, curves).empty());
    EXPECT_TRUE(temporal_modes_figures(o, {}, curves).empty());
    EXPECT_NE(trajectory_subtitle(o, {}).find("second recorded step"), std::string::npos);
  }
  Observation of_folder = samples::one_step();
  of_folder.folder = std::make_shared<const FolderView>();
  EXPECT_EQ(trajectory_subtitle(of_folder, {}), trained_elsewhere);
}

TEST(ForecastFigures, InputEndsAtZeroAndTruthGoesOn) {
  CurveStore curves;
  const Observation o = samples::forecast();
  const auto figures = forecast_figures(o, {}, curves);
  ASSERT_EQ(figures.size(), 4u);
  EXPECT_EQ(figures[1].title, "daily + weekly");
  const ForecastChannel& channel = o.forecast->windows[0].channels[1];
  const Line input = series<Line>(figures[1], "input"), truth = series<Line>(figures[1], "truth"),
             prediction = series<Line>(figures[1], "prediction");
  EXPECT_EQ(CurveView(input.curve).x(0), -71);
  EXPECT_EQ(CurveView(input.curve).x(71), 0);
  EXPECT_EQ(CurveView(truth.curve).x(0), 0);
  EXPECT_EQ(CurveView(truth.curve).y(0), channel.input.back());
  EXPECT_EQ(CurveView(truth.curve).y(24), channel.truth.back());
  EXPECT_EQ(CurveView(prediction.curve).x(0), 1);
  EXPECT_EQ(CurveView(prediction.curve).y(23), channel.prediction.back());
  EXPECT_EQ(figures[1].x.range, (Range{-71, 24}));
  const HeatMap errors = series<HeatMap>(figures[3], "MSE");
  EXPECT_EQ(errors.rows, 3);
  EXPECT_EQ(errors.cols, 4);
  EXPECT_EQ(errors.cells[4 + 2], o.forecast->windows[2].channels[1].mse);
}

TEST(ForecastFigures, ShowTheSpreadOfSeveralRuns) {
  CurveStore curves;
  Observation o = samples::forecast();
  auto view = std::make_shared<ForecastView>(*o.forecast);
  view->runs = {"seed 1, step 9", "seed 2, step 9", "seed 3, step 9"};
  ForecastChannel& channel = view->windows[0].channels[1];
  channel.mean = channel.prediction;
  channel.deviation.assign(channel.mean.size(), 0.25);
  channel.mse_of_runs = {0.2, 0.3, 0.4};
  o.forecast = view;
  const Figure figure = forecast_figures(o, {}, curves)[1];
  const Line mean = series<Line>(figure, "mean of 3 runs"), above = series<Line>(figure, "± one deviation of 3 runs"),
             below = series<Line>(figure, "below");
  EXPECT_EQ(CurveView(mean.curve).x(0), 1);
  EXPECT_NEAR(CurveView(above.curve).y(5) - CurveView(mean.curve).y(5), 0.25, 1e-12);
  EXPECT_NEAR(CurveView(mean.curve).y(5) - CurveView(below.curve).y(5), 0.25, 1e-12);
  EXPECT_TRUE(below.is_quiet);
  EXPECT_EQ(figure.subtitle, "MSE 0.3 ± 0.1");
  EXPECT_EQ(series<Line>(figure, "prediction, seed 1, step 9").width, 2.4);
  EXPECT_NE(forecast_subtitle(o, {}).find("one standard deviation over 3 runs"), std::string::npos);
  // A channel that is not the same in all runs shows its own run only.
  EXPECT_EQ(forecast_figures(o, {}, curves)[0].series.size(), 3u);
}

TEST(MemoryTokensFigures, ShowBothDirectionsOfTheAttention) {
  CurveStore curves;
  const Observation o = samples::forecast();
  const auto figures = memory_tokens_figures(o, {}, curves);
  ASSERT_EQ(figures.size(), 4u);
  const HeatMap reads = series<HeatMap>(figures[0], "weight");
  EXPECT_EQ(reads.rows, 4);
  EXPECT_EQ(reads.cells[72 + 5], o.memory->attention[0].reads[1][5]);
  const Line is_read = series<Line>(figures[1], "m3");
  EXPECT_EQ(CurveView(is_read.curve).y(7), o.memory->attention[0].is_read[7][3]);
  EXPECT_NEAR(figures[1].reference_lines.front().at, 1.0 / 76, 1e-15);
  const Bars off = series<Bars>(figures[2], "without memory");
  ASSERT_EQ(off.bars.size(), 4u);
  EXPECT_NEAR(off.bars[1].value, 40, 1e-9);
  const Line alone = series<Line>(figures[3], "mode k alone");
  EXPECT_NEAR(CurveView(alone.curve).y(1), 0.25, 1e-12);
}

TEST(ForecastFigures, SayQuietlyWhatTheyWouldShow) {
  CurveStore curves;
  const Observation o = samples::mid_training();
  EXPECT_TRUE(forecast_figures(o, {}, curves).empty());
  EXPECT_TRUE(memory_tokens_figures(o, {}, curves).empty());
  EXPECT_NE(forecast_subtitle(o, {}).find("input, truth and prediction"), std::string::npos);
  EXPECT_NE(memory_tokens_subtitle(o, {}).find("needs a memory of training"), std::string::npos);
  Observation without = samples::forecast();
  without.memory.reset();
  EXPECT_TRUE(memory_tokens_figures(without, {}, curves).empty());
}

// In a causal stack memory stands first and reads nothing of the sequence; there is no window to forecast.
TEST(MemoryTokensFigures, ShowWhoReadsTheMemoryOfATokenModel) {
  CurveStore curves;
  Observation o = samples::forecast();
  auto memory = std::make_shared<MemoryView>(*o.memory);
  memory->attention[0].layer = "0 attention";
  memory->attention[0].reads.clear();
  memory->attention.push_back(memory->attention[0]);
  memory->attention[1].layer = "1 ska";
  memory->accuracy = 0.75;
  memory->without = 0.5;
  o.memory = memory;
  o.forecast.reset();
  const auto figures = memory_tokens_figures(o, {}, curves);
  ASSERT_EQ(figures.size(), 3u);
  EXPECT_EQ(figures[0].title, "Which positions read memory, layer 0 attention");
  EXPECT_TRUE(figures[0].reference_lines.empty());
  EXPECT_EQ(figures[1].id, "memory_buffer");
  EXPECT_EQ(figures[2].title, "Which positions read memory, layer 1 ska");
  EXPECT_NE(memory_tokens_subtitle(o, {}).find("accuracy 0.75, 0.5 without"), std::string::npos)
      << memory_tokens_subtitle(o, {});
}

TEST(ForecastFigures, TrainingCurvesOfAForecasterAreNamedForWhatTheyAre) {
  CurveStore curves;
  const std::vector<Figure> figures = training_figures(samples::forecast(), {}, curves);
  EXPECT_EQ(figures[0].title, "Explained variance");
  EXPECT_EQ(figures[1].y.label, "mean squared error");
  EXPECT_EQ(figures[1].y.unit, "");
  const std::vector<Figure> of_tokens = training_figures(samples::mid_training(), {}, curves);
  EXPECT_EQ(of_tokens[0].title, "Accuracy");
  EXPECT_EQ(of_tokens[1].y.label, "cross-entropy");
}

TEST(ForecastFigures, NothingThatNeverComesIsPromised) {
  const Observation o = samples::forecast();
  for (const PlotKind& kind : plot_kinds()) {
    EXPECT_THAT(kind.subtitle(o, {}), testing::Not(testing::HasSubstr("within seconds"))) << kind.id;
    EXPECT_THAT(kind.subtitle(o, {}), testing::Not(testing::HasSubstr("between training steps"))) << kind.id;
  }
}

TEST(MemoryInspectorFigures, ShowEachStageAndWhatEachModeIsWorth) {
  CurveStore curves;
  const Observation o = samples::forecast();
  const auto figures = memory_inspector_figures(o, {}, curves);
  ASSERT_EQ(figures.size(), 7u);
  const Bars worth = series<Bars>(figures[0], "without mode k");
  ASSERT_EQ(worth.bars.size(), o.memory->change_without.size());
  EXPECT_NEAR(worth.bars[1].value, 100 * o.memory->change_without[1], 1e-12) << "in percent";
  const HeatMap buffer = series<HeatMap>(figures[2], "Hc");
  EXPECT_EQ(buffer.rows, o.memory->buffer_rows);
  EXPECT_EQ(series<HeatMap>(figures[4], "C_KL").row_labels.front(), "1");
  EXPECT_EQ(CurveView(series<Line>(figures[6], "pooling weight").curve).size(), o.memory->pooling.size());
  const Figure& less = figures[1];
  EXPECT_EQ(less.id, "inspector_less");
  EXPECT_EQ(less.subtitle, "K' 4, M' 4, T' 400: +5 %");
  EXPECT_EQ(figures[3].subtitle, "over all its rows");
  const CurveView modes(series<Line>(less, "modes K' of 8").curve);
  EXPECT_EQ(modes.x(2), 25) << "two of eight";
  EXPECT_NEAR(modes.y(2), 10, 1e-12) << "in percent";
  const Scatter now = series<Scatter>(less, "present settings");
  ASSERT_EQ(now.points.size(), 1u) << "only what is made smaller";
  EXPECT_EQ(now.points[0].x, 50);
  EXPECT_EQ(now.points[0].y, 5);
  Observation all = o;
  auto whole = std::make_shared<MemoryView>(*o.memory);
  whole->less[0].now = 8;
  whole->less[2].now = 200;
  whole->history_rows = 200;
  all.memory = whole;
  EXPECT_EQ(memory_inspector_figures(all, {}, curves)[3].subtitle, "over its newest 200 rows");
  whole->less[2].now = 400;
  EXPECT_EQ(memory_inspector_figures(all, {}, curves)[1].subtitle,
            "a larger K, M or T needs training: table etth1_memory");
  Observation without = o;
  without.memory = nullptr;
  EXPECT_TRUE(memory_inspector_figures(without, {}, curves).empty());
}

}  // namespace
}  // namespace afterglow
