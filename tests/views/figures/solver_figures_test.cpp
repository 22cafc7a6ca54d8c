// What the solver laboratory's figures say about systems whose numbers are known.
#include "views/analyses/solvers/solver_figures.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/engine/inspection/solver_problems.h"
#include "core/figure/decimate.h"
#include "tests/support/sample_observations.h"
#include "tests/views/figures/figure_parts.h"

namespace afterglow {
namespace {

Observation with_spectrum(const MadeProblem& made) {
  Observation o = samples::mid_training();
  o.solvers = std::make_shared<const SolverView>(with_made(*o.solvers, made));
  return o;
}

TEST(SolverRaceFigures, DrawTheWorstOfAllSystemsWithTheBestBehindIt) {
  CurveStore curves;
  const Observation o = samples::mid_training();
  const Figure race = solver_race_figures(o, {}, curves).at(0);
  const Line line = series<Line>(race, "Nesterov");
  const CurveView worst(line.curve), best(line.raw);
  for (std::size_t i = 0; i < worst.size(); ++i) {
    double low = 1e300, high = 0;
    for (const RacedProblem& problem : o.solvers->problems) {
      low = std::min(low, problem.races[2][2][i]);
      high = std::max(high, problem.races[2][2][i]);
    }
    EXPECT_EQ(worst.y(i), high);
    EXPECT_EQ(best.y(i), low);
  }
  const Line bound = series<Line>(race, "Chebyshev, bound");
  EXPECT_TRUE(bound.is_quiet);
  const RacedProblem& problem = o.solvers->problems.front();
  EXPECT_NEAR(CurveView(bound.curve).y(4), residual_bound(SolverKind::chebyshev, problem.mu, problem.L, 4), 1e-12);
  EXPECT_EQ(race.y.scale, Scale::log);
}

TEST(SolverRaceFigures, DrawOneSystemOrTheUsersOwn) {
  const Observation o = samples::mid_training();
  Selection one;
  one.band = false;
  one.head = 2;
  one.token = 40;
  const auto chosen = selected_problems(o, one);
  ASSERT_EQ(chosen.size(), 1u);
  EXPECT_EQ(chosen.front()->head, 2);
  EXPECT_EQ(chosen.front()->token, 32);  // of 32 and 63
  one.token = -1;
  EXPECT_EQ(selected_problems(o, one).front()->token, 63);

  CurveStore curves;
  const Observation own = with_spectrum({{1, 1e-3, 0.1}, 0, 0});
  const auto figures = solver_race_figures(own, {}, curves);
  const Scatter dots = series<Scatter>(figures.at(1), "eigenvalues");
  ASSERT_EQ(dots.points.size(), 3u);
  EXPECT_EQ(dots.points[1].y, 1e-3);  // in the user's order, to be dragged
  EXPECT_EQ(dots.points[1].id, "eigenvalue 1");
  const HeatMap map = series<HeatMap>(figures.at(2), "residual");
  EXPECT_EQ(map.row_labels.front(), "Chebyshev");
  EXPECT_EQ(map.col_labels, (std::vector<std::string>{"bf16", "tf32", "fp32", "fp64"}));
  EXPECT_NEAR(map.cells[3], std::log10(own.solvers->made->races[3][0].back()), 1e-12);
  EXPECT_LT(map.cells[19], std::log10(1e3 * 1.2e-16));  // Cholesky in fp64: κ u
}

TEST(SolverRaceFigures, TakeTheArithmeticOfTheRunUnlessAnotherIsChosen) {
  Observation o = samples::mid_training();
  o.precision = "bf16";
  EXPECT_EQ(selected_arithmetic(o, {}), Arithmetic::bf16);
  Selection selection;
  selection.arithmetic = 3;
  EXPECT_EQ(selected_arithmetic(o, selection), Arithmetic::fp64);
  o.precision = "";
  EXPECT_EQ(selected_arithmetic(o, {}), Arithmetic::fp32);
}

TEST(SolverAdvice, WarnsNearTheLineAndNamesARidgeThatHelps) {
  EXPECT_EQ(precision_advice(Arithmetic::bf16, 1, 31, 0.1), "");
  EXPECT_NE(precision_advice(Arithmetic::bf16, 1, 33, 0.1).find("near the limit of bf16"), std::string::npos);
  const std::string beyond = precision_advice(Arithmetic::bf16, 0.01, 10, 0.01);
  EXPECT_NE(beyond.find("above the limit of bf16 (256)"), std::string::npos) << beyond;
  // (10 + x)/(0.01 + x) = 32 at x = 0.312.
  EXPECT_NE(beyond.find("raise the ridge from 0.01 to 0.32 or use fp32"), std::string::npos) << beyond;
  EXPECT_EQ(precision_advice(Arithmetic::fp64, 0.01, 10, 0.01), "");
  const Observation own = with_spectrum({{1, 1e-3}, 0, 0});
  Selection selection;
  selection.arithmetic = 0;
  EXPECT_NE(solver_advice(own, selection).find("to the diagonal"), std::string::npos);
  EXPECT_EQ(solver_advice(samples::nothing(), selection), "");
  EXPECT_NE(conditioning_advice(samples::mid_training(), selection), "");
  EXPECT_EQ(conditioning_advice(samples::nothing(), selection), "");
}

TEST(GateFigures, CountTokens) {
  CurveStore curves;
  const Observation o = samples::mid_training();
  const auto figures = gate_figures(o, {}, curves);
  ASSERT_EQ(figures.size(), 3u);
  const Line head = series<Line>(figures[0], "head 1");
  EXPECT_EQ(CurveView(head.curve).y(63), 11);  // 0.1 a token: e^-1 is left after ten, less after eleven
  const Line decay = series<Line>(figures[2], "head 0");
  EXPECT_NEAR(CurveView(decay.curve).y(5), std::exp(-0.2), 1e-12);
}

TEST(HalfLives, AreAMapOfLayersAndHeads) {
  CurveStore curves;
  Observation o = samples::mid_training();
  const auto figures = half_lives_figures(o, {}, curves);
  ASSERT_EQ(figures.size(), 1u);
  const HeatMap map = std::get<HeatMap>(figures[0].series.at(0));
  ASSERT_EQ(map.cells.size(), static_cast<std::size_t>(map.rows * map.cols));
  const LayerHalfLives& layer = o.solvers->half_lives.front();
  const auto row = std::ranges::find(map.row_labels, o.model.layers[static_cast<std::size_t>(layer.layer)].label);
  const auto first = static_cast<std::size_t>(row - map.row_labels.begin()) * static_cast<std::size_t>(map.cols);
  EXPECT_EQ(map.cells[first + 1], layer.of_heads[1]);
  EXPECT_NE(half_lives_subtitle(o, {}).find("1 of " + std::to_string(layer.of_heads.size())), std::string::npos)
      << half_lives_subtitle(o, {});
}

TEST(GradientCheckFigures, HoldTheChecks) {
  CurveStore curves;
  const Observation o = samples::mid_training();
  const auto figures = gradient_check_figures(o, {}, curves);
  ASSERT_EQ(figures.size(), 3u);
  const GradientLine& line = o.solvers->gradients[2];
  ASSERT_EQ(line.arithmetic, Arithmetic::fp32);
  const Line implicit = series<Line>(figures[0], "∂H implicit");
  EXPECT_EQ(CurveView(implicit.curve).y(3), line.checks[3].implicit.H);
}

TEST(ConditioningFigures, ShowSystemsWhereNoGramMatrixIsTraced) {
  CurveStore curves;
  const Observation o = samples::attention_trace();
  const auto figures = conditioning_figures(o, {}, curves);
  ASSERT_EQ(figures.size(), 4u);
  EXPECT_EQ(figures[0].reference_lines.back().label, "(a + 1)/a");
  EXPECT_NEAR(figures[0].reference_lines.back().at, 51, 1e-9);
  const Line head = series<Line>(figures[0], "head 0");
  const HeadConditioning& own = o.solvers->conditioning[0];
  EXPECT_NEAR(CurveView(head.curve).y(0), (own.largest[0] + own.ridge[0]) / (own.smallest[0] + own.ridge[0]), 1e-12);
  const Line fixed = series<Line>(figures[2], "λ = 0.25");
  EXPECT_NEAR(CurveView(fixed.curve).y(0), (own.largest[0] + 0.25) / (own.smallest[0] + 0.25), 1e-12);
}

TEST(SolverRaceFigures, MarkTheIterationsOfTheLayerItself) {
  CurveStore curves;
  const Observation o = samples::mid_training();
  const auto lines = solver_race_figures(o, {}, curves).at(0).reference_lines;
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0].at, o.solvers->own_iterations);
  EXPECT_TRUE(solver_race_figures(with_spectrum({{1, 1e-3}, 0, 0}), {}, curves).at(0).reference_lines.empty());
}

TEST(KalmanFigures, ShowTheSelectedHeadsFiltersAndTheSelectedArithmetic) {
  CurveStore curves;
  const Observation o = samples::mid_training();
  Selection selection;
  selection.head = 1;
  selection.arithmetic = 0;  // bf16
  const HeadFilters& of = o.solvers->filters.at(1);
  const auto figures = kalman_figures(o, selection, curves);
  const Figure &recall = figures.at(0), &written = figures.at(1), &sigma = figures.at(2), &drifts = figures.at(3);
  EXPECT_EQ(written.series.size(), all_filters.size());
  const CurveView share(series<Line>(written, "KDA").curve);
  for (std::size_t t = 0; t < share.size(); ++t) EXPECT_EQ(share.y(t), of.runs.back().written[t]);
  // Ages 3 and 4 together, at the older.
  const CurveView errors(series<Line>(recall, "Kalman").curve);
  const std::vector<double>& each = of.runs.front().recall;
  EXPECT_EQ(errors.x(2), 4);
  EXPECT_NEAR(errors.y(2), (each[each.size() - 3] + each[each.size() - 4]) / 2, 1e-12);
  EXPECT_EQ(CurveView(series<Line>(sigma, "mean").curve).y(5), of.steady.mean[5]);
  EXPECT_EQ(CurveView(series<Line>(drifts, "recursion, λ/1000").curve).y(9), of.weaker_drifts[0].recursion[9]);
  const Figure& noise = figures.at(5);
  ASSERT_EQ(noise.series.size(), 2 * of.sweeps.size());
  EXPECT_EQ(CurveView(series<Line>(noise, "A_t = I").curve).y(3), of.sweeps[0].all[3]);
  EXPECT_EQ(CurveView(series<Line>(noise, "A_t of the head, last eighth").curve).y(6), of.sweeps[1].last[6]);
  EXPECT_EQ(noise.reference_lines.at(0).label, "Gated KalmaNet");
  selection.head = 99;
  EXPECT_EQ(selected_filters(o, selection), &o.solvers->filters.back());
}

}  // namespace
}  // namespace afterglow
