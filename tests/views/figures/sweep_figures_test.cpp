// Figures of sweeps: means and spreads over seeds, colours over two axes that fill from coarse to fine, and trainings.
#include "views/figures/studies/sweep_figures.h"

#include <gmock/gmock.h>

#include <cmath>
#include <set>
#include <tuple>

#include "core/figure/decimate.h"
#include "core/figure/palette.h"
#include "tests/support/sample_observations.h"
#include "tests/views/figures/figure_parts.h"
#include "views/analyses/studies/study_figures.h"

namespace afterglow {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

RunResult result(std::size_t row, double loss, double accuracy) { return {row, 7, 10, "abc", {loss, accuracy}, {}}; }

SweepView one_axis() {
  SweepView sweep{"small", {{"layers.1.ska.ridge", {"0.1", "1"}, true}, {"seed", {"7", "8"}}}, {}, {}, "{}"};
  sweep.metrics = {{"loss", "nats"}, {"accuracy", "", true}};
  sweep.results = {result(0, 1, 0.5), result(1, 3, nan), result(2, 4, 0.25), result(3, 6, 0.75)};
  return sweep;
}

TEST(SweepFigures, OneAxisShowsMeanAndSpreadOverSeeds) {
  const std::vector<std::size_t> drawn{0, 1};
  const std::vector<Figure> figures = sweep_figures(one_axis(), drawn);
  ASSERT_THAT(figures, SizeIs(2));
  EXPECT_EQ(figures[0].id, "sweep_loss");
  EXPECT_EQ(figures[0].x.scale, Scale::log);
  EXPECT_EQ(figures[0].y.unit, "nats");
  EXPECT_EQ(figures[0].recipe, "{}");
  EXPECT_THAT(heights(figures[0].series[0]), ElementsAre(2, 5));
  EXPECT_THAT(heights(figures[0].series[1]), ElementsAre(2 + std::sqrt(2), 5 + std::sqrt(2)));
  EXPECT_THAT(std::get<Scatter>(figures[0].series.back()).points, SizeIs(4));
  EXPECT_THAT(heights(figures[1].series[0]), ElementsAre(0.5, 0.5)) << "a run without an answer does not count";
  EXPECT_THAT(std::get<Scatter>(figures[1].series.back()).points, SizeIs(3));
}

SweepView map_of(std::vector<RunResult> results) {
  return {"small", {{"x", {"1", "2", "3"}}, {"y", {"a", "b"}}}, {{"loss", ""}}, std::move(results), ""};
}

TEST(SweepFigures, AMapHasTheLargestValueOfItsSecondAxisOnTop) {
  std::vector<RunResult> all;
  for (std::size_t row = 0; row < 6; ++row) all.push_back(result(row, static_cast<double>(row), 0));
  const Figure figure = phase_figure(map_of(all), 0);
  const auto& map = std::get<HeatMap>(figure.series[0]);
  EXPECT_THAT(map.row_labels, ElementsAre("b", "a"));
  EXPECT_THAT(map.col_labels, ElementsAre("1", "2", "3"));
  EXPECT_THAT(std::vector<double>(map.cells.span().begin(), map.cells.span().end()), ElementsAre(1, 3, 5, 0, 2, 4));
}

TEST(SweepFigures, ACompleteMapHasLinesOfEqualValue) {
  std::vector<RunResult> all;
  for (std::size_t row = 0; row < 6; ++row) all.push_back(result(row, static_cast<double>(row), 0));
  const Figure figure = phase_figure(map_of(all), 0);
  ASSERT_GT(figure.series.size(), 1U);
  const Line& line = std::get<Line>(figure.series[1]);
  EXPECT_TRUE(line.is_quiet);
  EXPECT_FALSE(figure.text_labels.empty()) << "each level is named once";
  all.pop_back();
  EXPECT_EQ(phase_figure(map_of(all), 0).series.size(), 1U) << "colours of coarse cells are no values";
}

TEST(SweepFigures, AMapFillsFromCoarseToFine) {
  const Figure figure = phase_figure(map_of({result(0, 5, 0), result(4, nan, 0), result(3, 7, 0)}), 0);
  const std::span<const double> cells = std::get<HeatMap>(figure.series[0]).cells.span();
  EXPECT_EQ(cells[0], 5) << "place 1 | b has no run; 1 | a stands in for it";
  EXPECT_EQ(cells[1], 7);
  EXPECT_TRUE(std::isnan(cells[2])) << "a run without an answer stands in as one without an answer";
  EXPECT_EQ(cells[3], 5);
  EXPECT_EQ(cells[4], 5);
  EXPECT_TRUE(std::isnan(cells[5]));
  EXPECT_TRUE(std::isnan(std::get<HeatMap>(phase_figure(map_of({}), 0).series[0]).cells[0])) << "nothing yet";
}

TEST(SweepFigures, TrainingsAreMeansOverSeedsWhereTheyReach) {
  SweepView sweep = one_axis();
  sweep.results = {result(0, 1, 0), result(1, 3, 0)};
  sweep.results[0].sketch = {{10, 20, 30}, {4, 2, 1}, {}, {}};
  sweep.results[1].sketch = {{10, 15}, {6, 2}, {}, {}};
  const std::vector<Figure> figures = sweep_figures(sweep, {});
  ASSERT_THAT(figures, SizeIs(1));
  EXPECT_EQ(figures[0].id, "sweep_training");
  ASSERT_THAT(figures[0].series, SizeIs(3)) << "one recipe: mean and two edges";
  EXPECT_THAT(heights(figures[0].series[0]), ElementsAre(5, 2, 1));
  EXPECT_EQ(series_name(figures[0].series[0]), "ridge ε, 1 ska: 0.1");
  sweep.axes[0].values = std::vector<std::string>{"1", "2", "3", "4", "5", "6", "7", "8", "9"};
  EXPECT_THAT(sweep_figures(sweep, {}), IsEmpty()) << "too many curves to tell apart";
}

TEST(SweepFigures, MoreThanTwoAxesAreNotDrawn) {
  SweepView sweep = map_of({});
  sweep.axes.push_back({"z", {"1", "2"}});
  const std::vector<std::size_t> drawn{0};
  EXPECT_THAT(sweep_figures(sweep, drawn), IsEmpty());
}

TEST(PhaseMapFigures, DotsAreTheFinishedRunsAndCellsAnswerForThem) {
  const Observation o = samples::mid_training();
  const PhaseMapView& map = *o.phase_map;
  CurveStore curves;
  const std::vector<Figure> figures = phase_map_figures(o, {}, curves);
  ASSERT_THAT(figures, SizeIs(3));
  const auto& dots = std::get<Scatter>(figures[0].series[1]);
  ASSERT_THAT(dots.points, SizeIs(map.sweep.results.size()));
  EXPECT_EQ(run_of_point(dots.points[1].id), 2);
  EXPECT_EQ(dots.points[1].y, 0) << "the largest ridge on top";
  EXPECT_EQ(run_at(map, 0.3, 0.4), 2u);
  EXPECT_EQ(run_at(map, 1, 0), std::nullopt) << "not finished";
  EXPECT_EQ(run_of_point("mode 3"), -1);
  EXPECT_EQ(figures[1].title, place_name(map.sweep.axes, 8)) << "the best run";
  EXPECT_THAT(figures[1].series, SizeIs(1));
  ASSERT_THAT(phase_run_figures(map, 5), SizeIs(1)) << "not finished: no spectrum either";
  EXPECT_THAT(phase_run_figures(map, 5)[0].series, IsEmpty());
}

TEST(PhaseMapFigures, TheSpectrumIsThatOfTheRunWithItsSlowestModeRinged) {
  PhaseMapView map = *samples::mid_training().phase_map;
  const std::vector<Figure> figures = phase_run_figures(map, 8);
  ASSERT_THAT(figures, SizeIs(2));
  EXPECT_THAT(figures[1].subtitle, testing::HasSubstr("1 ska · head 2"));
  const std::vector<ScatterPoint>& dots = std::get<Scatter>(figures[1].series[0]).points;
  ASSERT_THAT(dots, SizeIs(3));
  EXPECT_EQ(dots[1].y, -0.725);
  EXPECT_TRUE(dots[0].ring && dots[1].ring) << "both of the pair";
  EXPECT_FALSE(dots[2].ring);
  for (RunResult& result : map.sweep.results) result.spectrum = {};
  EXPECT_THAT(phase_run_figures(map, 8), SizeIs(1)) << "a model without such heads, or a result of an earlier version";
}

TEST(PhaseMapFigures, BeforeTheFirstRunTheMapSaysWhatItWaitsFor) {
  Observation o = samples::mid_training();
  PhaseMapView map = *o.phase_map;
  map.sweep.results.clear();
  map.first_run_at = 37;
  o.phase_map = std::make_shared<const PhaseMapView>(map);
  CurveStore curves;
  const std::vector<Figure> figures = phase_map_figures(o, {}, curves);
  ASSERT_THAT(figures, SizeIs(1));
  ASSERT_THAT(figures[0].text_labels, SizeIs(1));
  EXPECT_THAT(figures[0].text_labels[0].text, testing::HasSubstr("step 37 of " + std::to_string(map.steps)));
}

TEST(TableFigures, ShowTheTrainingOfEachSeriesAtEachPlace) {
  TableView table;
  table.name = "small";
  table.x_label = "width";
  table.rows = {{"one", 16, "", {}}, {"two", 16, "", {}}, {"one", 32, "", {}}};
  table.metrics = {{"accuracy", "", true}};
  std::vector<RunResult> results{{0, 7, 1, "", {0.5}, {{5, 10}, {3, 1}, {10}, {0.75}}},
                                 {1, 7, 1, "", {0.6}, {{5, 10}, {4, 2}, {}, {}}},
                                 {2, 7, 1, "", {0.7}, {}}};
  const std::vector<Figure> figures = table_figures(table, results);
  ASSERT_THAT(figures, SizeIs(3)) << "a result of an earlier version has no curve";
  EXPECT_EQ(figures[2].id, "table_small_accuracy_16");
  ASSERT_THAT(figures[2].series, SizeIs(1)) << "one run was evaluated";
  EXPECT_THAT(heights(figures[2].series[0]), ElementsAre(0.75));
  EXPECT_EQ(figures[1].id, "table_small_training_16");
  EXPECT_THAT(heights(figures[1].series[1]), ElementsAre(4, 2));
}

/// The colour of a line in the palette, its dash as drawn, its width: what tells two lines apart.
std::vector<std::tuple<int, Dash, double>> looks_of(const Figure& figure) {
  std::vector<std::tuple<int, Dash, double>> looks;
  for (const Series& one : figure.series) {
    if (!std::holds_alternative<Line>(one)) continue;
    const Line& line = std::get<Line>(one);
    const Dash dash = line.dash == Dash::automatic ? ink_dash(line.ink) : line.dash;
    looks.emplace_back(line.ink.index % palette_size, dash, line.width);
  }
  return looks;
}

// Colours come again from the seventh on.
TEST(TableFigures, NoTwoOfEightSeriesLookAlike) {
  TableView table;
  table.name = "eight";
  table.x_label = "task";
  table.group_label = "length";
  table.metrics = {{"accuracy", "", true}, {"at 64", "", true, "needle", 64}, {"at 128", "", true, "needle", 128}};
  std::vector<RunResult> one_seed, two_seeds;
  for (std::size_t row = 0; row < 8; ++row) {
    table.rows.push_back({"series " + std::to_string(row), 1, "", {}});
    const TrainingSketch sketch{{5, 10}, {3, 1}, {5, 10}, {0.5, 0.75}}, other{{5, 10}, {4, 2}, {5, 10}, {0.25, 0.5}};
    one_seed.push_back({row, 7, 1, "", {0.5, 0.5, 0.5}, sketch});
    two_seeds.push_back(one_seed.back());
    two_seeds.push_back({row, 8, 1, "", {0.6, 0.6, 0.6}, other});
  }
  for (const std::vector<RunResult>* results : {&one_seed, &two_seeds}) {
    const std::vector<Figure> figures = table_figures(table, *results);
    ASSERT_THAT(figures, SizeIs(4)) << "a metric, a group, training and learning";
    for (const Figure& figure : figures) {
      const auto looks = looks_of(figure);
      // The two edges of a spread are alike, and no others.
      const bool has_edges = figure.series.size() > 9;
      const std::set<std::tuple<int, Dash, double>> different(looks.begin(), looks.end());
      EXPECT_EQ(different.size(), has_edges ? 16u : 8u) << figure.id;
      EXPECT_THAT(looks, SizeIs(has_edges ? 24 : 8)) << figure.id;
    }
  }
  std::set<std::tuple<int, Dash, Marker>> all;
  for (int index = 0; index < palette_size * palette_size; ++index) {
    Line line;
    tell_apart(index, line);
    const Dash dash = line.dash == Dash::automatic ? ink_dash(line.ink) : line.dash;
    const Marker marker = line.marker == Marker::automatic ? ink_marker(line.ink) : line.marker;
    EXPECT_TRUE(all.insert({index % palette_size, dash, Marker::none}).second) << index;
    EXPECT_TRUE(all.insert({index % palette_size, Dash::automatic, marker}).second) << index;
  }
}

// More curves than a legend names are taken apart where the names say how.
TEST(TableFigures, KindsUnderManyConditionsHaveAFigureForEachCondition) {
  TableView table;
  table.name = "grid";
  table.title = "Recall";
  table.x_label = "gap";
  table.metrics = {{"accuracy", "", true}};
  std::vector<RunResult> results;
  for (const char* kind : {"one", "two"}) {
    for (const char* condition : {"4 pairs", "8 pairs", "16 pairs", "32 pairs"}) {
      results.push_back({table.rows.size(), 7, 1, "", {0.1 * static_cast<double>(table.rows.size())}, {}});
      table.rows.push_back({std::string(kind) + ", " + condition, 64, "", {}});
    }
  }
  const std::vector<Figure> figures = table_figures(table, results);
  ASSERT_THAT(figures, SizeIs(4));
  EXPECT_EQ(figures[1].id, "table_grid_8_pairs_0");
  EXPECT_EQ(figures[1].title, "Recall, 8 pairs");
  ASSERT_THAT(figures[1].series, SizeIs(2));
  EXPECT_EQ(series_name(figures[1].series[1]), "two");
  EXPECT_THAT(heights(figures[1].series[0]), ElementsAre(0.1));
  EXPECT_THAT(heights(figures[1].series[1]), ElementsAre(0.5));
  table.rows.pop_back();
  results.pop_back();
  EXPECT_THAT(table_figures(table, results), SizeIs(1)) << "not every kind under every condition";
}

TEST(TableFigures, WhatIsPublishedOfAConditionStandsInItsFigure) {
  TableView table;
  table.name = "grid";
  table.x_label = "gap";
  table.metrics = {{"accuracy", "", true}};
  std::vector<RunResult> results;
  for (const char* kind : {"one", "two"}) {
    for (const char* condition : {"4 pairs", "8 pairs", "16 pairs", "32 pairs"}) {
      results.push_back({table.rows.size(), 7, 1, "", {0.5}, {}});
      table.rows.push_back({std::string(kind) + ", " + condition, 64, "", {}});
    }
  }
  table.published = {{"one, 8 pairs", {0.25}, 64}, {"one, 8 pairs", {0.125}, 128}, {"two, 8 pairs", {1.0}, 64}};
  const std::vector<Figure> figures = table_figures(table, results);
  ASSERT_THAT(figures, SizeIs(4));
  EXPECT_THAT(figures[0].series, SizeIs(2)) << "nothing is published of 4 pairs";
  ASSERT_THAT(figures[1].series, SizeIs(4));
  EXPECT_EQ(series_name(figures[1].series[2]), "one, published");
  EXPECT_THAT(heights(figures[1].series[2]), ElementsAre(0.25, 0.125));
  EXPECT_NE(std::get<Line>(figures[1].series[2]).dash, std::get<Line>(figures[1].series[3]).dash);
}

TEST(TableFigures, VariantsOfAPlaceAreNotNamedInFullAgain) {
  TableView table;
  table.name = "small";
  table.x_names = {"recall", "recall, hard", "tools", "hard"};
  table.metrics = {{"accuracy", "", true}};
  std::vector<RunResult> results;
  for (std::size_t i = 0; i < table.x_names.size(); ++i) {
    table.rows.push_back({"one", static_cast<double>(i), "", {}});
    results.push_back({i, 7, 1, "", {0.5}, {}});
  }
  std::vector<std::string> labels;
  const std::vector<Figure> figures = table_figures(table, results);
  for (const AxisTick& tick : figures.at(0).x.ticks) labels.push_back(tick.label);
  EXPECT_THAT(labels, ElementsAre("recall", "hard", "tools", "hard"));
}

TEST(TableFigures, GroupsAreCurvesWithWhatIsPublishedBeside) {
  TableView table;
  table.name = "small";
  table.x_label = "recipe";
  table.x_names = {"published", "ours"};
  table.group_label = "length";
  table.rows = {{"one", 1, "", {}}, {"two", 1, "", {}}};
  table.metrics = {{"mean", "", true}, {"at 64", "", true, "needle", 64}, {"at 128", "", true, "needle", 128}};
  table.published = {{"one", {0.25, 0.5, nan}}};
  const std::vector<RunResult> results{
      {0, 7, 1, "", {0.5, 0.8, 0.4}, {}}, {0, 8, 1, "", {0.7, 0.6, 0.4}, {}}, {1, 7, 1, "", {0.1, 0.1, 0.2}, {}}};
  const std::vector<Figure> figures = table_figures(table, results);
  ASSERT_THAT(figures, SizeIs(2));
  EXPECT_THAT(heights(figures[0].series[0]), ElementsAre(0.25, 0.6)) << "published, ours";
  EXPECT_EQ(figures[0].x.ticks.front().label, "published");
  EXPECT_EQ(figures[1].id, "table_small_group_0_1");
  EXPECT_EQ(figures[1].title, "needle");
  ASSERT_THAT(figures[1].series, SizeIs(5)) << "a mean with two edges, a single run, the paper's";
  EXPECT_THAT(heights(figures[1].series[0]), ElementsAre(0.7, 0.4));
  EXPECT_EQ(series_name(figures[1].series[4]), "one, paper");
  EXPECT_THAT(heights(figures[1].series[4]), ElementsAre(0.5)) << "nothing is invented where nothing is published";
  EXPECT_EQ(figures[1].y.label, "accuracy");
  table.metrics[1].at = table.metrics[2].at = nan;
  EXPECT_THAT(table_figures(table, results), SizeIs(1)) << "a group without places is for files of numbers alone";
  table.metrics[1].at = 64;
  table.metrics[2].at = 128;
  for (RunMetric& metric : table.metrics) metric.is_share = false;
  const Figure other = table_figures(table, results)[1];
  EXPECT_EQ(other.y.label, "needle") << "what the group is called";
  EXPECT_FALSE(other.y.range.has_value()) << "only shares end at 1";
}

}  // namespace
}  // namespace afterglow
