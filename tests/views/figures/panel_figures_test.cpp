// What the figures of each plot say about observations whose numbers are known.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <set>

#include "core/engine/analyses/inspected/inspected_view.h"
#include "core/engine/analyses/theory/theory_view.h"
#include "core/figure/axis.h"
#include "core/figure/decimate.h"
#include "core/figure/files/csv_writer.h"
#include "core/figure/layout.h"
#include "tests/support/sample_observations.h"
#include "tests/views/figures/figure_parts.h"
#include "views/analyses/inspected/inspection_figures.h"
#include "views/analyses/solvers/solver_figures.h"
#include "views/analyses/spectra/spectrum_figures.h"
#include "views/analyses/theory/theory_figures.h"
#include "views/figures/semantic_colours.h"
#include "views/figures/training/training_figures.h"
#include "views/plots/plot_kinds.h"

namespace afterglow {
namespace {

Values published(const std::vector<double>& values) {
  GrowingCurve curve;
  for (const double v : values) curve.append(v);
  return curve.view();
}

Observation run_of(const std::vector<double>& loss) {
  Observation o;
  o.step = static_cast<std::int64_t>(loss.size());
  o.final_step = 100;
  RunCurves run;
  run.run = "run 1";
  run.loss = run.accuracy = run.learning_rate = run.gradient_norm = published(loss);
  run.marks = {{2, "rate 1 → 2"}};
  o.runs = {run};
  return o;
}

TEST(TrainingFigures, TheLearningRateIsShownFromZeroOn) {
  CurveStore curves;
  const auto figures = training_figures(run_of({1e-4, 9.9999e-5, 9.9995e-5}), {}, curves);
  EXPECT_EQ(figures[3].id, "training_learning_rate");
  EXPECT_LE(figure_ranges(figures[3], {}).y.low, 0);
}

TEST(TrainingFigures, BeforeTheFirstStepTheyTellHowToBegin) {
  CurveStore curves;
  Observation o = run_of({});
  o.running = false;
  ASSERT_EQ(training_figures(o, {}, curves).front().text_labels.size(), 1u);
  EXPECT_THAT(training_figures(o, {}, curves).front().text_labels.front().text, testing::HasSubstr("Press Space"));
  o.running = true;
  EXPECT_TRUE(training_figures(o, {}, curves).front().text_labels.empty()) << "the first step is in progress";
  Observation trained = run_of({4, 3});
  trained.running = false;
  EXPECT_TRUE(training_figures(trained, {}, curves).front().text_labels.empty());
}

TEST(TrainingFigures, RawCurveHoldsTheVeryValuesAtTheirSteps) {
  CurveStore curves;
  const auto figures = training_figures(run_of({4, 3, 2}), {}, curves);
  ASSERT_EQ(figures.size(), 4u);
  const Line line = series<Line>(figures[1], "loss");
  const CurveView raw(line.raw);
  ASSERT_EQ(raw.size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(raw.x(i), static_cast<double>(i + 1));
    EXPECT_EQ(raw.y(i), 4.0 - static_cast<double>(i));
  }
}

TEST(TrainingFigures, SmoothingIsBiasCorrected) {
  CurveStore curves;
  Selection selection;
  selection.smoothing = 0.9;
  const auto figures = training_figures(run_of({4, 4, 4, 1}), selection, curves);
  const Line smooth_line = series<Line>(figures[1], "loss");
  const CurveView smooth(smooth_line.curve);
  for (std::size_t i = 0; i < 3; ++i)
    EXPECT_NEAR(smooth.y(i), 4, 1e-12) << "an average of equal values is that value from the start";
  const double weights = 0.1 * (1 + 0.9 + 0.81 + 0.729);
  EXPECT_NEAR(smooth.y(3), (0.1 * 1 + 0.09 * 4 + 0.081 * 4 + 0.0729 * 4) / weights, 1e-12);
}

TEST(TrainingFigures, NewValuesNeverMoveThePastOfTheAverage) {
  CurveStore curves;
  const Observation shorter = run_of({4, 3, 5});
  const auto before = training_figures(shorter, {}, curves);
  const auto after = training_figures(run_of({4, 3, 5, 0.1, 7}), {}, curves);
  const Line first_line = series<Line>(before[1], "loss"), second_line = series<Line>(after[1], "loss");
  const CurveView first(first_line.curve), second(second_line.curve);
  for (std::size_t i = 0; i < first.size(); ++i) EXPECT_EQ(first.y(i), second.y(i));
}

TEST(TrainingFigures, NonFiniteValuesStayInTheCurveAndOutOfTheAverage) {
  CurveStore curves;
  const double nan = std::nan("");
  const auto figures = training_figures(run_of({2, nan, INFINITY, 2}), {}, curves);
  const Line smooth_line = series<Line>(figures[1], "loss");
  const CurveView smooth(smooth_line.curve);
  EXPECT_TRUE(std::isnan(smooth.y(1)));
  EXPECT_TRUE(std::isinf(smooth.y(2)));
  EXPECT_NEAR(smooth.y(3), 2, 1e-12);
}

TEST(TrainingFigures, MarksAndRunsAreThere) {
  CurveStore curves;
  Selection selection;
  selection.earlier = EarlierRuns::coloured;
  const auto figures = training_figures(samples::several_runs(), selection, curves);
  const Figure& accuracy = figures[0];
  EXPECT_EQ(series<Line>(accuracy, "run 1").ink, Ink(0));
  EXPECT_EQ(series<Line>(accuracy, "run 2 · without SKA").ink, Ink(1));
  const Line branch_line = series<Line>(accuracy, "branch of run 1 at 300");
  const CurveView branch(branch_line.raw);
  EXPECT_EQ(branch.x(0), 301) << "a branch begins where it left";
  ASSERT_EQ(accuracy.events.size(), 2u);
  EXPECT_EQ(accuracy.events[1].x, 400);
  EXPECT_EQ(accuracy.events[1].text, "power K 2 → 4");
  EXPECT_EQ(series<Line>(accuracy, "held out").marker, Marker::diamond);
}

TEST(TrainingFigures, StepAxisMovesRarely) {
  CurveStore curves;
  double last = 0;
  int moves = 0;
  for (int n = 1; n <= 100; ++n) {
    Observation o = run_of(std::vector<double>(static_cast<std::size_t>(n), 1.0));
    o.final_step = 1000;
    const double end = training_figures(o, {}, curves)[0].x.range->high;
    EXPECT_GE(end, n);
    moves += end != last;
    last = end;
  }
  EXPECT_LE(moves, 4);
}

Observation head_of(std::vector<std::complex<double>> eigenvalues, std::vector<int> identity,
                    std::vector<double> energy) {
  Observation o;
  o.model.layers.resize(4);
  o.model.layers[3].label = "1 ska";
  auto spectra = std::make_shared<Spectra>();
  HeadSpectrum head;
  head.layer = 3;
  head.eigenvalues = std::move(eigenvalues);
  head.identity = std::move(identity);
  head.energy = std::move(energy);
  head.gamma = head.scale = 1.2;
  head.power = 2;
  spectra->heads = {head};
  o.spectra = spectra;
  o.spectrum_history = {spectra};
  return o;
}

TEST(SpectrumFigures, DotsLieAtTheEigenvaluesAndPairsShareAColour) {
  CurveStore curves;
  const std::complex<double> lambda = std::polar(0.9, 0.5);
  const Observation o = head_of({lambda, std::conj(lambda), 0.3}, {4, 4, 7}, {0.25, 0.25, 0.5});
  const Figure figure = spectrum_figures(o, {}, curves).at(0);
  EXPECT_TRUE(figure.equal_aspect);
  ASSERT_FALSE(figure.reference_circles.empty());
  EXPECT_EQ(figure.reference_circles[0].radius, 1);
  const auto points = series<Scatter>(figure, "eigenvalues").points;
  ASSERT_EQ(points.size(), 3u);
  EXPECT_DOUBLE_EQ(points[0].x, lambda.real());
  EXPECT_DOUBLE_EQ(points[1].y, -lambda.imag());
  EXPECT_EQ(points[0].ink, points[1].ink);
  EXPECT_EQ(points[0].id, points[1].id);
  EXPECT_NE(points[0].ink, points[2].ink);
  EXPECT_GT(points[2].radius, points[0].radius) << "more of the query's energy, larger dot";
}

TEST(SpectrumFigures, ScaledEigenvaluesAreThoseOfA) {
  CurveStore curves;
  Selection selection;
  selection.scaled = true;
  const Figure figure = spectrum_figures(head_of({{0.5, 0}}, {0}, {1}), selection, curves).at(0);
  EXPECT_DOUBLE_EQ(series<Scatter>(figure, "eigenvalues").points[0].x, 0.6);
}

TEST(SpectrumFigures, TrailFollowsAModeThroughReorderings) {
  CurveStore curves;
  Observation o = head_of({{0.9, 0}, {0.4, 0}}, {1, 2}, {0.5, 0.5});
  auto earlier = std::make_shared<Spectra>(*o.spectra);
  earlier->heads[0].eigenvalues = {{0.8, 0}, {0.3, 0}};
  earlier->heads[0].identity = {2, 1};  // then mode 2 was the larger one
  o.spectrum_history = {earlier, o.spectra};
  const auto trails = series<Scatter>(spectrum_figures(o, {}, curves).at(0), "eigenvalues").trails;
  ASSERT_EQ(trails.size(), 2u);
  EXPECT_EQ(trails[0].x, (std::vector<double>{0.3, 0.9}));
  EXPECT_EQ(trails[1].x, (std::vector<double>{0.8, 0.4}));
}

TEST(SpectrumFigures, NonFiniteEigenvaluesAreLeftOutAndLargeOnesWidenThePlane) {
  CurveStore curves;
  const Figure figure = spectrum_figures(head_of({{std::nan(""), 0}, {3, 0}}, {0, 1}, {0.5, 0.5}), {}, curves).at(0);
  EXPECT_EQ(series<Scatter>(figure, "eigenvalues").points.size(), 1u);
  EXPECT_GE(figure.x.range->high, 3);
}

TEST(SpectrumFigures, AllHeadsAreSmallMultiplesAndTheMlpHasItsOwnPlane) {
  CurveStore curves;
  Selection selection;
  selection.all_heads = true;
  const auto figures = spectrum_figures(samples::mid_training(), selection, curves);
  EXPECT_EQ(figures.size(), 5u);
  selection.layer = 4;
  const Figure mlp = spectrum_figures(samples::mid_training(), selection, curves).at(0);
  EXPECT_EQ(mlp.title, "layer 1 koopman mlp");
  EXPECT_EQ(mlp.subject, mlp.title);
  EXPECT_EQ(series<Scatter>(mlp, "eigenvalues").points.size(), 64u) << "both of each pair";
}

TEST(SpectrumFigures, AMovedPairOfTheMlpLeavesAGhostAndOneThatIsOffADiamond) {
  CurveStore curves;
  Selection selection;
  selection.layer = 2;
  selection.mode = 3;
  const Observation o = samples::inspected();
  const Figure figure = spectrum_figures(o, selection, curves).at(0);
  EXPECT_THAT(spectrum_subtitle(o, selection), testing::HasSubstr("edited"));
  const auto ghosts = series<Scatter>(figure, "before the override").points;
  ASSERT_EQ(ghosts.size(), 2u) << "the pair before it was moved";
  EXPECT_DOUBLE_EQ(ghosts[0].x, o.spectra->mlps[0].eigenvalues[3].real());
  const auto off = series<Scatter>(figure, "switched off").points;
  ASSERT_EQ(off.size(), 2u);
  EXPECT_EQ(off[0].id, "pair 9") << "a click there switches it on again";
  const auto points = series<Scatter>(figure, "eigenvalues").points;
  EXPECT_EQ(points.size(), 62u);
  const auto moved = std::ranges::find(points, "pair 3", &ScatterPoint::id);
  ASSERT_NE(moved, points.end());
  EXPECT_DOUBLE_EQ(moved->x, -0.4);
  EXPECT_TRUE(moved->ring);
  const auto rows = mode_readout(o, selection);
  ASSERT_EQ(rows.size(), 3u) << "a pair has no half-life: it turns numbers of one token";
  EXPECT_EQ(rows[0].label, "pair 3");
  EXPECT_EQ(rows[1].value, "0.5");
  const auto meant = meant_mode(o, selection);
  ASSERT_TRUE(meant);
  EXPECT_EQ(meant->name, (ModeName{2, 0, false, 3}));
  EXPECT_FALSE(meant->is_off);
  const auto head_modes = series<Scatter>(power_filter_figures(o, selection, curves).at(0), "modes").points;
  EXPECT_FALSE(head_modes.empty());
  EXPECT_TRUE(std::ranges::none_of(head_modes, &ScatterPoint::ring)) << "mode 3 of a head is another one";
  selection.layer = 4;
  EXPECT_TRUE(meant_mode(o, selection)) << "another MLP has a pair of that number, too";
  selection.mode = 400;
  EXPECT_FALSE(meant_mode(o, selection));
}

TEST(SpectrumFigures, ReadoutGivesHalfLifeAndPeriod) {
  Selection selection;
  selection.mode = 0;
  const auto rows =
      mode_readout(head_of({std::polar(0.951, 0.52), std::polar(0.951, -0.52)}, {0, 3}, {0.21, 0.21}), selection);
  const auto value = [&](const std::string& label) {
    for (const ReadoutRow& row : rows) {
      if (row.label == label) return row.value;
    }
    return std::string("none");
  };
  EXPECT_EQ(rows.at(0).label, "mode 0, pair with 3");
  EXPECT_EQ(value("kept, |λ|"), "0.951");
  EXPECT_EQ(value("half-life"), number_text(std::log(0.5) / std::log(0.951), 3) + " tokens");
  EXPECT_EQ(value("period"), number_text(2 * std::numbers::pi / 0.52, 3) + " tokens");
  EXPECT_EQ(value("energy"), "21 %");
  EXPECT_EQ(value("gain, K = 2"), number_text(std::pow(1.2 * 0.951, 2), 3));
}

TEST(SpectrumFigures, ReadoutOfModesThatDoNotFadeOrTurn) {
  EXPECT_EQ(mode_readout(head_of({{1, 0}}, {0}, {1}), {}).at(1).value, "∞");
  EXPECT_EQ(mode_readout(head_of({{0.5, 0}}, {0}, {1}), {}).at(2).value, "none");
  EXPECT_TRUE(mode_readout(samples::nothing(), {}).empty());
}

TEST(PowerFilterFigures, GainIsThePowerAndEnergyItsSquare) {
  CurveStore curves;
  Selection selection;
  selection.power = 3;
  const Observation o = head_of({std::polar(0.5, 0.2), std::polar(0.5, -0.2)}, {0, 0}, {0.5, 0.5});
  const Figure figure = power_filter_figures(o, selection, curves).at(0);
  const auto points = series<Scatter>(figure, "modes").points;
  ASSERT_EQ(points.size(), 1u) << "a pair counts once";
  EXPECT_DOUBLE_EQ(points[0].x, 0.6);
  EXPECT_NEAR(points[0].y, 0.216, 1e-12);
  const Bar bar = series<Bars>(figure, "share of energy").bars[0];
  EXPECT_NEAR(bar.before, 1, 1e-12);
  EXPECT_NEAR(bar.value, 0.216 * 0.216, 1e-12);
  EXPECT_EQ(series<Line>(figure, "K = 3").ink, Ink(Role::accent));
}

TEST(PowerFilterFigures, PowerZeroLetsEverythingThrough) {
  CurveStore curves;
  Selection selection;
  selection.power = 0;
  const Figure figure = power_filter_figures(head_of({{0, 0}, {0.4, 0}}, {0, 1}, {0.3, 0.7}), selection, curves).at(0);
  const Bars bars = series<Bars>(figure, "share of energy");
  for (const Bar& bar : bars.bars) EXPECT_EQ(bar.value, bar.before);
}

TEST(PowerFilterFigures, TheTableIsTableD1ForTheModesOfTheHead) {
  CurveStore curves;
  // With the gain 1.2 of head_of the moduli of A are those of the paper's table.
  const Observation o =
      head_of({0.95 / 1.2, std::polar(0.7 / 1.2, 0.4), std::polar(0.7 / 1.2, -0.4), 0.3 / 1.2}, {0, 1, 3, 2}, {});
  const auto figures = power_filter_figures(o, {}, curves);
  ASSERT_EQ(figures.size(), 2u);
  EXPECT_EQ(figures[1].id, "power_filter_table");
  const HeatMap table = series<HeatMap>(figures[1], "gain |λ|^K");
  EXPECT_THAT(table.row_labels, testing::ElementsAre("mode 0", "modes 1 and 3", "mode 2")) << "a pair counts once";
  EXPECT_THAT(table.col_labels, testing::ElementsAre("|λ|", "|λ|^2", "|λ|^4"));
  const std::vector<double> printed{0.95, 0.902, 0.815, 0.7, 0.490, 0.240, 0.3, 0.090, 0.008};
  ASSERT_EQ(table.cells.size(), printed.size());
  for (std::size_t i = 0; i < printed.size(); ++i) EXPECT_NEAR(table.cells[i], printed[i], 6e-4) << i;
  EXPECT_TRUE(csv_text(figures[1]).starts_with("mode \\ power K,|λ|,|λ|^2,|λ|^4\r\nmode 0,"));

  Selection selection;
  selection.power = 3;
  const HeatMap with_shown = series<HeatMap>(power_filter_figures(o, selection, curves).at(1), "gain |λ|^K");
  EXPECT_THAT(with_shown.col_labels, testing::ElementsAre("|λ|", "|λ|^2", "|λ|^3", "|λ|^4")) << "the shown power, too";
  EXPECT_EQ(power_filter_figures(head_of({}, {}, {}), {}, curves).size(), 1u) << "no table without modes";
}

TEST(ConditioningFigures, LimitsOfPrecisionAndJitterAreMarked) {
  CurveStore curves;
  const Figure figure = conditioning_figures(samples::mid_training(), {}, curves).at(0);
  ASSERT_EQ(figure.reference_lines.size(), 3u);
  EXPECT_EQ(figure.reference_lines[0].at, 256);
  EXPECT_EQ(figure.reference_lines[1].at, 2048);
  EXPECT_EQ(figure.reference_lines[2].at, 16777216);
  EXPECT_EQ(figure.series.size(), 4u);
  ASSERT_EQ(figure.events.size(), 1u);
  EXPECT_EQ(figure.events[0].x, 3);
  EXPECT_EQ(figure.events[0].text, "jitter, head 1");
  EXPECT_EQ(figure.y.scale, Scale::log);
}

TEST(ConditioningFigures, CurvesHoldTheTrace) {
  CurveStore curves;
  const Observation o = samples::mid_training();
  const Line curve_line = series<Line>(conditioning_figures(o, {}, curves).at(0), "head 2");
  const CurveView curve(curve_line.curve);
  ASSERT_EQ(curve.size(), o.trace->steps.size());
  EXPECT_EQ(curve.y(17), o.trace->steps[17].heads[2].kappa);
}

TEST(ConditioningFigures, TheRidgeShrinksEachDirectionOfTheChosenHead) {
  CurveStore curves;
  const Observation o = samples::mid_training();
  Selection selection;
  selection.head = 2;
  selection.token = 17;
  const HeadStep& step = o.trace->steps[17].heads[2];
  const auto figures = conditioning_figures(o, selection, curves);
  const auto figure = std::ranges::find(figures, "conditioning_shrinkage", &Figure::id);
  ASSERT_NE(figure, figures.end());
  const std::vector<double> kept = heights(series<Line>(*figure, "kept by the ridge"));
  ASSERT_EQ(kept.size(), step.gram.size());
  double together = 0;
  for (std::size_t j = 0; j < kept.size(); ++j) {
    EXPECT_DOUBLE_EQ(kept[j], step.gram[j] / (step.gram[j] + step.ridge));
    together += kept[j];
  }
  const std::string words = number_text(together, 3) + " of " + std::to_string(kept.size()) + " directions";
  EXPECT_THAT(figure->subtitle, testing::HasSubstr(words));
  EXPECT_THAT(shrinkage_numbers(o, selection), testing::HasSubstr(words));
}

TEST(ConditioningFigures, TheSizeOfGStaysBelowTheNumberOfTokens) {
  CurveStore curves;
  Observation o = samples::mid_training();
  const auto size_of_G = [&] {
    const auto figures = conditioning_figures(o, {}, curves);
    return *std::ranges::find(figures, "conditioning_size", &Figure::id);
  };
  const Figure figure = size_of_G();
  const std::vector<double> trace = heights(series<Line>(figure, "tr G")),
                            frobenius = heights(series<Line>(figure, "|G|_F")),
                            largest = heights(series<Line>(figure, "λ_max(G)")),
                            bound = heights(series<Line>(figure, "bound E.1"));
  ASSERT_EQ(trace.size(), o.trace->steps.size());
  ASSERT_EQ(bound.size(), trace.size());
  for (std::size_t t = 0; t < trace.size(); ++t) {
    EXPECT_EQ(bound[t], static_cast<double>(t + 1));
    EXPECT_LE(largest[t], frobenius[t]);
    EXPECT_LE(frobenius[t], trace[t]);
    EXPECT_LE(trace[t], bound[t]);
  }
  auto kept = std::make_shared<Trace>(*o.trace);
  kept->scale_kept_behind = 4;
  o.trace = kept;
  EXPECT_EQ(heights(series<Line>(size_of_G(), "bound E.1")).size(), 5u) << "later keys may be longer than m";
  EXPECT_TRUE(gram_size_numbers(samples::nothing(), {}).empty());
}

TEST(ConditioningFigures, TheProbesRidgeMovesThem) {
  CurveStore curves;
  Observation o = samples::mid_training();
  const HeadStep& trained = o.trace->steps[17].heads[2];
  const double ridge = o.spectra->heads.front().ridge, largest = trained.kappa * trained.lambda_min;
  auto inspected = std::make_shared<InspectedView>(*o.inspected);
  inspected->setup.interventions.layers[o.trace->layer].ridge = ridge + 0.5;
  o.inspected = inspected;
  const auto figures = conditioning_figures(o, {}, curves);
  const Line kappa = series<Line>(figures.at(0), "head 2"), smallest = series<Line>(figures.at(1), "head 2");
  EXPECT_NEAR(CurveView(kappa.curve).y(17), (largest + 0.5) / (trained.lambda_min + 0.5), 1e-9);
  EXPECT_NEAR(CurveView(smallest.curve).y(17), trained.lambda_min + 0.5, 1e-12);
  EXPECT_NE(figures[0].subtitle.find("inspected with ε"), std::string::npos);
  ASSERT_FALSE(figures[1].reference_lines.empty());
  EXPECT_NEAR(figures[1].reference_lines[0].at, ridge + 0.5, 1e-12);
}

TEST(StepperFigures, StateAndItsChange) {
  CurveStore curves;
  const Observation o = samples::mid_training();
  Selection selection;
  selection.token = 5;
  selection.head = 1;
  const auto figures = stepper_figures(o, selection, curves);
  ASSERT_EQ(figures.size(), 4u);
  const HeatMap G = series<HeatMap>(figures[0], "G");
  EXPECT_EQ(G.rows, 16);
  const auto& now = o.trace->steps[5].heads[1].G;
  const auto& before = o.trace->steps[4].heads[1].G;
  EXPECT_EQ(G.cells[18], static_cast<double>(now[18]));
  EXPECT_EQ(G.value.range->low, -G.value.range->high) << "zero keeps the neutral colour";
  selection.change = true;
  const auto changes = stepper_figures(o, selection, curves);
  EXPECT_DOUBLE_EQ(series<HeatMap>(changes[0], "G").cells[18],
                   static_cast<double>(now[18]) - static_cast<double>(before[18]));
  selection.token = 0;
  EXPECT_DOUBLE_EQ(series<HeatMap>(stepper_figures(o, selection, curves)[0], "G").cells[0],
                   static_cast<double>(o.trace->steps[0].heads[1].G[0]))
      << "the first token starts from nothing";
}

TEST(StepperFigures, SayWhichScaleAHeadDividesBy) {
  Observation o = samples::mid_training();
  Trace trace = *o.trace;
  trace.steps[5].heads[1].m = 3.25;
  Selection selection;
  selection.token = 5;
  selection.head = 1;
  const auto subtitle = [&](int kept_behind) {
    trace.scale_kept_behind = kept_behind;
    o.trace = std::make_shared<Trace>(trace);
    return stepper_subtitle(o, selection);
  };
  EXPECT_NE(subtitle(-1).find(" · m 3.25 · "), std::string::npos) << subtitle(-1);
  EXPECT_NE(subtitle(5).find(" · m 3.25 · "), std::string::npos) << "it is this token's own";
  EXPECT_NE(subtitle(2).find(" · m 3.25 frozen after token 2 · "), std::string::npos) << subtitle(2);
}

TEST(TokenSpectrumFigures, ShowTheModesOfTheChosenTokenAndTheirWay) {
  CurveStore curves;
  const Observation o = samples::mid_training();
  Selection selection;
  selection.token = 5;
  selection.head = 1;
  const auto figures = token_spectrum_figures(o, selection, curves);
  ASSERT_EQ(figures.size(), 2u);
  const HeadStep& now = o.trace->steps[5].heads[1];
  const Scatter plane = series<Scatter>(figures[0], "eigenvalues");
  ASSERT_EQ(plane.points.size(), now.eigenvalues.size());
  EXPECT_EQ(plane.points[2].x, now.eigenvalues[2].real());
  ASSERT_EQ(plane.trails.size(), plane.points.size());
  EXPECT_EQ(plane.trails[2].x.size(), 6u) << "tokens 0 to 5";
  EXPECT_EQ(plane.trails[2].x.back(), plane.points[2].x);
  EXPECT_EQ(plane.trails[3].y.front(), o.trace->steps[0].heads[1].eigenvalues[3].imag()) << "on its own side";
  const Line line = series<Line>(figures[1], "mode " + std::to_string(now.identity[2]));
  EXPECT_EQ(line.curve.y[5], std::abs(now.eigenvalues[2]));
  EXPECT_EQ(figures[1].reference_lines.front().at, 5);
}

TEST(TokenSpectrumFigures, ALineBreaksWhereItsModeWasNotFollowed) {
  CurveStore curves;
  Observation o = samples::mid_training();
  auto trace = std::make_shared<Trace>(*o.trace);
  const int lost = trace->steps.back().heads[0].identity.front();
  for (const std::size_t t : {4u, 5u}) {
    for (int& number : trace->steps[t].heads[0].identity) number = number == lost ? 99 : number;
  }
  o.trace = trace;
  const Line line = series<Line>(token_spectrum_figures(o, {}, curves).at(1), "mode " + std::to_string(lost));
  ASSERT_EQ(line.curve.y.size(), trace->steps.size());
  EXPECT_TRUE(std::isfinite(line.curve.y[3]));
  EXPECT_TRUE(std::isnan(line.curve.y[4]));
  EXPECT_TRUE(std::isnan(line.curve.y[5]));
  EXPECT_TRUE(std::isfinite(line.curve.y[6]));
}

TEST(SpectrumFigures, WhatInterferesNamesAModeAsTheInterventionInForceDoes) {
  Observation o = head_of({0.9, std::polar(0.7, -0.4), std::polar(0.7, 0.4)}, {2, 0, 1}, {});
  const auto meant = [&](int number) {
    Selection selection;
    selection.mode = number;
    const auto mode = meant_mode(o, selection);
    return std::pair(mode->name.is_number, mode->name.mode);
  };
  EXPECT_EQ(meant(2), std::pair(true, 2));
  const auto edited = [&](std::pair<bool, int> name) {
    auto inspected = std::make_shared<InspectedView>();
    inspected->heads.push_back({o.spectra->heads[0], std::vector<bool>(3, false), false});
    inspected->setup.interventions.layers[3].heads[0].modes[name] = {name.second, true, {}, name.first};
    o.inspected = inspected;
  };
  edited({true, 1});
  EXPECT_EQ(meant(0), std::pair(true, 1)) << "its partner is switched off, and it with it";
  EXPECT_EQ(meant(2), std::pair(true, 2));
  edited({false, 1});
  EXPECT_EQ(meant(1), std::pair(false, 1)) << "an earlier file counts by modulus";
}

TEST(StepperFigures, ColoursStayPutWhileOneWalks) {
  CurveStore curves;
  const Observation o = samples::mid_training();
  Selection selection;
  selection.token = 1;
  const Range early = *series<HeatMap>(stepper_figures(o, selection, curves)[0], "G").value.range;
  selection.token = 60;
  EXPECT_EQ(early, *series<HeatMap>(stepper_figures(o, selection, curves)[0], "G").value.range);
}

TEST(StepperFigures, AnswerMarksTheTokenThatShouldFollow) {
  CurveStore curves;
  const auto figures = stepper_figures(samples::mid_training(), {}, curves);
  const Figure& answer = figures.back();
  const Bars bars = series<Bars>(answer, "probability");
  ASSERT_EQ(bars.bars.size(), 5u);
  EXPECT_EQ(answer.x.ticks[0].label, "v2");
  EXPECT_EQ(bars.bars[0].ink, Ink(0));
  EXPECT_EQ(bars.bars[1].ink, Ink(2)) << "as in the panel of the sequence";
}

TEST(StepperFigures, OtherLayersShowTheirStateAsOneMatrix) {
  CurveStore curves;
  const auto figures = stepper_figures(samples::attention_trace(), {}, curves);
  ASSERT_EQ(figures.size(), 2u);
  EXPECT_EQ(series<HeatMap>(figures[0], "state").rows, 32);
  EXPECT_EQ(figures[0].title, "State of 0 mamba2");
}

TEST(TokenWeightsFigures, MapHoldsTheWeightsOfTheHeadAndMarksTheToken) {
  CurveStore curves;
  const Observation o = samples::mid_training();
  Selection selection;
  selection.head = 2;
  selection.token = 12;
  const auto figures = token_weights_figures(o, selection, curves);
  ASSERT_EQ(figures.size(), 1u);
  const HeatMap map = series<HeatMap>(figures[0], "weight");
  EXPECT_EQ(map.rows, 64);
  EXPECT_EQ(map.cols, 64);
  EXPECT_EQ(map.cells[12 * 64 + 5], static_cast<double>(o.token_weights->weights[2][12 * 64 + 5]));
  EXPECT_TRUE(std::isnan(map.cells[12 * 64 + 13]));
  EXPECT_TRUE(map.nan_is_blank) << "the future of a causal layer is no error";
  ASSERT_EQ(map.row_labels.size(), 64u);
  EXPECT_EQ(map.col_labels[2], "v9");
  ASSERT_EQ(figures[0].reference_lines.size(), 2u);
  EXPECT_EQ(figures[0].reference_lines[0].at, 11.5);
  EXPECT_EQ(figures[0].reference_lines[1].at, 12.5);
}

TEST(TokenWeightsFigures, FollowInterventionsOnTheirLayerAndOthersSayThatTheyDoNot) {
  CurveStore curves;
  Observation o = samples::mid_training();
  const auto weights_of = [&] {
    const HeatMap map = series<HeatMap>(token_weights_figures(o, {}, curves).at(0), "weight");
    return map.cells[64];
  };
  o.inspected = nullptr;
  const double trained = weights_of();
  const PlotKind &follows = *find_plot_kind("token_weights"), &stays = *find_plot_kind("token_spectrum");
  EXPECT_EQ(without_interventions(stays, o), "");
  auto inspected = std::make_shared<InspectedView>();
  inspected->setup.interventions.layers[o.token_weights->layer].power = 0;
  inspected->weights = *o.token_weights;
  for (float& weight : inspected->weights.weights[0]) weight *= 2;
  o.inspected = inspected;
  EXPECT_EQ(weights_of(), 2 * trained);
  EXPECT_THAT(token_weights_subtitle(o, {}), testing::HasSubstr("edited"));
  EXPECT_EQ(without_interventions(follows, o), "");
  EXPECT_EQ(without_interventions(stays, o), " · without interventions");
  EXPECT_EQ(without_interventions(*find_plot_kind("training"), o), "") << "training never sees any";
  EXPECT_THAT(prepared_figures(stays, o, {}, curves).at(0).subtitle, testing::HasSubstr("without interventions"));
  inspected->weights.layer = 0;
  EXPECT_EQ(weights_of(), trained) << "those of another layer";
}

TEST(TokenWeightsFigures, SignsDivergeAndSharesRunFromZeroToOne) {
  CurveStore curves;
  const HeatMap with_signs = series<HeatMap>(token_weights_figures(samples::mid_training(), {}, curves)[0], "weight");
  EXPECT_EQ(with_signs.map, ColourMap::diverging);
  EXPECT_EQ(with_signs.value.range->low, -with_signs.value.range->high) << "zero keeps the neutral colour";
  const Observation softmax = samples::softmax_weights();
  const HeatMap shares = series<HeatMap>(token_weights_figures(softmax, {}, curves)[0], "weight");
  EXPECT_EQ(shares.map, ColourMap::sequential);
  EXPECT_EQ(*shares.value.range, (Range{0, 1}));
  EXPECT_EQ(token_weights_subtitle(softmax, {}), "0 attention · head 0 · attention");
  Observation later = softmax;
  later.step = 1430;
  EXPECT_EQ(token_weights_subtitle(later, {}), "0 attention · head 0 · attention · as of step 428");
}

TEST(TokenWeightsFigures, OneLargeCellDoesNotTakeTheColoursOfAllOthers) {
  CurveStore curves;
  Observation o = samples::mid_training();
  auto weights = std::make_shared<TokenWeights>(*o.token_weights);
  o.token_weights = weights;
  for (float& w : weights->weights[0]) {
    if (std::isfinite(w)) w = std::clamp(w, -0.01f, 0.01f);
  }
  weights->weights[0][20 * 64 + 20] = 50;
  const Figure figure = token_weights_figures(o, {}, curves).at(0);
  EXPECT_LE(series<HeatMap>(figure, "weight").value.range->high, 0.02);
  EXPECT_NE(figure.subtitle.find("1 cell outside the colour range"), std::string::npos) << figure.subtitle;
}

TEST(TokenWeightsFigures, SayWhyThereIsNothing) {
  CurveStore curves;
  EXPECT_TRUE(token_weights_figures(samples::nothing(), {}, curves).empty());
  EXPECT_EQ(token_weights_subtitle(samples::non_finite(), {}), "1 ska · head 0: its weights are not finite");
  Observation mlp = samples::mid_training();
  auto none = std::make_shared<TokenWeights>();
  none->layer = 2;
  mlp.token_weights = none;
  EXPECT_TRUE(token_weights_figures(mlp, {}, curves).empty());
  EXPECT_EQ(token_weights_subtitle(mlp, {}).find("Choose"), 0u);
}

TEST(TokenWeightsFigures, ATokenBehindTheLastOneShownHasNoMark) {
  CurveStore curves;
  const auto figures = token_weights_figures(samples::many_heads(), {}, curves);  // 700 tokens, the last one selected
  ASSERT_EQ(figures.size(), 1u);
  EXPECT_EQ(series<HeatMap>(figures[0], "weight").rows, 256);
  EXPECT_TRUE(figures[0].reference_lines.empty());
}

TEST(Colours, ReachIsARoundNumberThatCovers) {
  EXPECT_DOUBLE_EQ(colour_reach(0.3), 0.5);
  EXPECT_DOUBLE_EQ(colour_reach(1.0), 1.0);
  EXPECT_DOUBLE_EQ(colour_reach(7e-5), 1e-4);
  EXPECT_DOUBLE_EQ(colour_reach(0.0), 1.0);
  EXPECT_DOUBLE_EQ(colour_reach(INFINITY), 1.0);
}

TEST(TrainingFigures, EarlierRunsAreGreyColouredOrHidden) {
  const Observation o = samples::several_runs();
  CurveStore curves;
  Selection selection;
  const auto inks = [&] {
    std::vector<Ink> found;
    const std::vector<Figure> figures = training_figures(o, selection, curves);
    for (const Series& series : figures[1].series) found.push_back(std::get<Line>(series).ink);
    return found;
  };
  EXPECT_EQ(inks(), (std::vector<Ink>{Role::faint, Role::faint, Role::text}));
  selection.earlier = EarlierRuns::coloured;
  EXPECT_EQ(inks(), (std::vector<Ink>{run_ink(0), run_ink(1), Role::text}));
  selection.earlier = EarlierRuns::hidden;
  EXPECT_EQ(inks(), (std::vector<Ink>{Role::text}));
}

TEST(TrainingFigures, GhostsHaveNamesAndDashesOfTheirOwnAndStayFew) {
  Observation o = samples::several_runs();
  for (int i = 0; i < 20; ++i) {
    o.runs.insert(o.runs.begin(), o.runs.front());
    o.runs.front().run = "older run " + std::to_string(i);
  }
  CurveStore curves;
  for (const Figure& figure : training_figures(o, {}, curves)) {
    std::set<std::string> names;
    int ghosts = 0;
    for (const Series& series : figure.series) {
      const Line& line = std::get<Line>(series);
      EXPECT_TRUE(names.insert(line.name).second) << figure.id << ": " << line.name;
      if (line.ink != Ink(Role::faint) || line.name.find("run") == std::string::npos) continue;
      ++ghosts;
      EXPECT_LT(line.width, 2) << "a ghost is thinner than what it is compared to";
    }
    EXPECT_EQ(ghosts, 6) << figure.id;
  }
}

TEST(DepthFigures, ShowMeasurementFloorAndBounds) {
  const Observation o = samples::mid_training();
  CurveStore curves;
  const auto figures = depth_figures(o, {}, curves);
  ASSERT_EQ(figures.size(), 2u);
  const Figure& gradient = figures[0];
  ASSERT_EQ(gradient.series.size(), 5u);
  EXPECT_EQ(heights(series<Line>(gradient, "product of measured |J|")), o.depth->branch_product);
  EXPECT_EQ(heights(series<Line>(gradient, "J.9 in closed form")), o.depth->closed_product);
  EXPECT_FALSE(gradient.y.range) << "all of it has room";
  const CurveView measured(std::get<Line>(gradient.series[0]).curve), bound(std::get<Line>(gradient.series[1]).curve),
      floor(std::get<Line>(gradient.series[2]).curve);
  ASSERT_EQ(measured.size(), o.depth->gradient.size());
  for (std::size_t l = 0; l < measured.size(); ++l) {
    EXPECT_EQ(measured.x(l), static_cast<double>(l));
    EXPECT_LE(measured.y(l), bound.y(l));
  }
  ASSERT_EQ(floor.size(), 2u) << "a floor of zero is not drawn";
  for (std::size_t i = 0; i < floor.size(); ++i)
    EXPECT_GE(measured.y(static_cast<std::size_t>(floor.x(i))), floor.y(i));
  EXPECT_EQ(gradient.x.ticks.front().label, o.model.layers[1].label);
  EXPECT_EQ(gradient.x.ticks.back().label, "head");
  EXPECT_EQ(std::get<Bars>(figures[1].series[0]).bars.size(), o.depth->branch_norms.size());
  EXPECT_EQ(figures[1].y.scale, Scale::log) << "a small branch next to a large one is still visible";
  const Scatter closed = series<Scatter>(figures[1], "closed form J.8");
  ASSERT_EQ(closed.points.size(), 1u) << "one branch has a closed form";
  EXPECT_EQ(closed.points[0].x, 3);
  EXPECT_EQ(closed.points[0].y, o.depth->branch_bounds[3]);
  const Scatter queries = series<Scatter>(figures[1], "queries alone, J.2 or J.4");
  ASSERT_EQ(queries.points.size(), 1u);
  EXPECT_EQ(queries.points[0].x, 2);
  EXPECT_EQ(queries.points[0].y, o.depth->query_bounds[2]);
  EXPECT_TRUE(depth_figures(samples::nothing(), {}, curves).empty());
  EXPECT_NE(depth_subtitle(samples::nothing(), {}).find("Computing"), std::string::npos);
}

TEST(DepthFigures, AstronomicClosedFormsLeaveTheMeasurementItsShape) {
  Observation o = samples::mid_training();
  auto depth = std::make_shared<DepthView>(*o.depth);
  for (std::size_t l = 0; l < 4; ++l) depth->closed_product[l] = std::pow(1e9, 4.0 - static_cast<double>(l));
  o.depth = depth;
  CurveStore curves;
  const auto range = depth_figures(o, {}, curves).at(0).y.range;
  ASSERT_TRUE(range);
  EXPECT_DOUBLE_EQ(range->low, 0.0035) << "half of the lowest floor";
  EXPECT_DOUBLE_EQ(range->high, 1.61e6) << "a million times the highest other bound";
}

TEST(EmptyPanels, SayWhyAndWhatToDo) {
  Observation o = samples::nothing();
  EXPECT_THAT(spectrum_subtitle(o, {}), testing::HasSubstr("Opening the model"));
  o.events.push_back({0, Severity::failure, "the file is damaged"});
  EXPECT_THAT(spectrum_subtitle(o, {}), testing::HasSubstr("No model is open"));
  Observation started = samples::mid_training();
  EXPECT_EQ(why_no_model(started), "");
  started.running = true;
  started.step = 0;
  started.current = 0;
  EXPECT_THAT(why_no_model(started), testing::HasSubstr("first step"));
  o.model.layers = {{"0 mamba2", "layers.0.mixer", "mamba2", "", 10, 0, 0}};
  EXPECT_NE(spectrum_subtitle(o, {}).find("the preset "), std::string::npos) << spectrum_subtitle(o, {});
  o.model.layers.push_back({"1 ska", "layers.1.mixer", "ska", "", 10, 4, 0});
  EXPECT_NE(spectrum_subtitle(o, {}).find("within seconds"), std::string::npos) << spectrum_subtitle(o, {});
  for (const PlotKind& kind : plot_kinds()) {
    CurveStore curves;
    if (!kind.prepare(samples::nothing(), {}, curves).empty()) continue;
    EXPECT_GT(kind.subtitle(samples::nothing(), {}).size(), 20u)
        << kind.id << ": " << kind.subtitle(samples::nothing(), {});
  }
}

/// One of the figures of the inspected sequence, for a chosen token.
Figure inspection_figure(const Observation& o, std::string_view id, int token) {
  CurveStore curves;
  Selection selection;
  selection.token = token;
  for (Figure& figure : find_plot_kind("probe")->prepare(o, selection, curves)) {
    if (figure.id == id) return std::move(figure);
  }
  return Figure{};
}

TEST(InspectionFigures, ATokenBeyondTheWeightsIsToldSo) {
  Observation o = samples::mid_training();
  auto weights = std::make_shared<TokenWeights>(*o.token_weights);
  weights->tokens = 4;
  for (std::vector<float>& head : weights->weights) head.assign(16, 0.25F);
  o.token_weights = weights;
  const auto contributions = [&](int token) { return inspection_figure(o, "probe_sources", token); };
  EXPECT_TRUE(contributions(3).text_labels.empty());
  const Figure beyond = contributions(4);
  ASSERT_EQ(beyond.text_labels.size(), 2u);
  EXPECT_EQ(beyond.text_labels[0].text, "token 4 has no computed weights");
  EXPECT_EQ(beyond.text_labels[1].text, "tokens 0 to 3 have them");
}

TEST(InspectionFigures, ATokenWithoutAnAnswerIsToldSo) {
  Observation o = samples::mid_training();
  auto inspected = std::make_shared<InspectedView>(*o.inspected);
  for (std::size_t i = 0; i < 3; ++i) inspected->answers[i] = {};
  o.inspected = inspected;
  const auto answer = [&](int token) { return inspection_figure(o, "probe_answer", token); };
  EXPECT_TRUE(answer(3).text_labels.empty());
  const Figure before = answer(2);
  ASSERT_EQ(before.text_labels.size(), 2u);
  EXPECT_EQ(before.text_labels[0].text, "token 2 has no computed answer");
  EXPECT_EQ(before.text_labels[1].text,
            std::to_string(inspected->answers.size() - 3) + " tokens have one: the questions, then the last tokens");
}

TEST(InspectionFigures, SmallProbabilitiesAreSeen) {
  const auto limit = [](double largest) {
    return probability_limit({"", {{0, largest}, {1, largest / 2, std::numeric_limits<double>::quiet_NaN()}}});
  };
  EXPECT_EQ(limit(0.7), 1);
  EXPECT_EQ(limit(0.1), 1);
  EXPECT_DOUBLE_EQ(limit(0.03), 0.1);
  EXPECT_DOUBLE_EQ(limit(2e-5), 1e-4);
  EXPECT_EQ(limit(0), 1);
}

}  // namespace
}  // namespace afterglow
