// The phase map: the order in which it fills, its runs, that it belongs to no step, and that it delays nothing else.
#include <gmock/gmock.h>

#include <cmath>
#include <set>

#include "core/engine/analyses/studies/studies_view.h"
#include "core/engine/session/analysed_run.h"
#include "core/engine/sweeps/sweep.h"
#include "core/engine/training/training_run.h"
#include "core/io/json_file.h"
#include "tests/core/engine/small_recipe.h"
#include "tests/core/io/temporary_folder.h"

namespace afterglow {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

SweepView grid(std::size_t columns, std::size_t rows) {
  SweepView sweep{"small", {{"x", {}}, {"y", {}}}, {{"loss", ""}}, {}, ""};
  for (std::size_t i = 0; i < columns; ++i) sweep.axes[0].values.push_back(std::to_string(i));
  for (std::size_t i = 0; i < rows; ++i) sweep.axes[1].values.push_back(std::to_string(i));
  return sweep;
}

nlohmann::json small_map() {
  return {{"x", "learning_rate=0.001,0.01"}, {"y", "layers.1.ska.ridge=0.001,0.1"}, {"steps", 12}, {"result", ""}};
}

/// A run whose map is begun, piece by piece.
struct Mapped {
  Mapped() { run.choose("phase_map", small_map()); }
  bool advance() {
    run.advance(Analysis::phase_map);
    return run.has_work(Analysis::phase_map);
  }
  std::shared_ptr<const PhaseMapView> view() const { return run.describe().phase_map; }
  std::unique_ptr<Backend> backend = make_cpu_backend(1);
  AnalysedRun run{{small_recipe(), std::nullopt}, *backend};
};

TEST(PhaseMap, FillsFromCoarseToFineAndLeavesNothingOut) {
  SweepView sweep = grid(5, 3);
  std::vector<std::size_t> order;
  for (std::size_t next = next_place(sweep, 0); next < 15; next = next_place(sweep, 0)) {
    order.push_back(next);
    sweep.results.push_back({next, 7, 0, "", {1.0}, {}});
  }
  EXPECT_EQ(std::set<std::size_t>(order.begin(), order.end()).size(), 15u);
  EXPECT_THAT(std::vector<std::size_t>(order.begin(), order.begin() + 2), ElementsAre(0, 12)) << "four apart";
  const std::set<std::size_t> first(order.begin(), order.begin() + 6);
  EXPECT_THAT(first, ElementsAre(0, 2, 6, 8, 12, 14)) << "then two apart";
}

TEST(PhaseMap, LooksAtBoundariesFirst) {
  SweepView sweep = grid(9, 1);
  for (const std::size_t place : {0u, 2u, 4u, 6u, 8u})
    sweep.results.push_back({place, 7, 0, "", {place < 5 ? 0.0 : 1.0}, {}});
  EXPECT_EQ(next_place(sweep, 0), 5u) << "between 4 and 6";
  for (RunResult& result : sweep.results) result.values[0] = result.row == 0 ? std::nan("") : 1.0;
  EXPECT_EQ(next_place(sweep, 0), 1u) << "a run without an answer differs, too";
}

TEST(PhaseMap, ItsRunsAreThoseOfTheSweep) {
  Mapped map;
  EXPECT_TRUE(map.view()->sweep.results.empty());
  int pieces = 0;
  while (map.advance()) ++pieces;
  EXPECT_GE(pieces, 4 * 12 - 1) << "one step at a time";
  EXPECT_TRUE(map.run.is_current(Analysis::phase_map));
  ASSERT_EQ(map.view()->sweep.results.size(), 4u);
  Recipe base = small_recipe();
  base.training.steps = 12;
  const Inquiry inquiry = sweep_inquiry({}, INFINITY);
  const std::vector<PlannedRun> runs = runs_of(base, map.view()->sweep.axes, inquiry);
  for (const RunResult& result : map.view()->sweep.results) {
    RecipeRun run(inquiry, runs[result.row], *map.backend);
    while (run.train_step()) {
    }
    EXPECT_EQ(run.result().checksum, result.checksum) << result.row;
  }
}

TEST(PhaseMap, SaysHowFarItsFirstRunIs) {
  Mapped map;
  for (int step = 1; step <= 12; ++step) {
    ASSERT_TRUE(map.advance());
    EXPECT_EQ(map.view()->first_run_at, step);
  }
  map.run.release(set_of(Analysis::phase_map));
  map.advance();
  EXPECT_EQ(map.view()->first_run_at, 1) << "it has begun anew";
  while (map.view()->sweep.results.empty()) map.advance();
  const std::shared_ptr<const PhaseMapView> finished = map.view();
  map.advance();
  EXPECT_EQ(map.view(), finished) << "news are results from now on";
}

TEST(PhaseMap, OpensAFinishedRunAtItsEnd) {
  Mapped map;
  const Command open{"phase_map", R"({"open": 3})"_json};
  EXPECT_THAT(message_of(ExitCode::bad_input, [&] { map.run.opened_by(open); }), HasSubstr("not been trained"));
  while (map.advance()) {
  }
  const Recipe recipe = *map.run.opened_by(open);
  EXPECT_EQ(recipe.shown_step, 12);
  TrainingRun run(recipe, *map.backend, 0);
  while (run.step() < recipe.shown_step && run.train_step()) {
  }
  for (const RunResult& result : map.view()->sweep.results) {
    if (result.row != 3) continue;
    EXPECT_EQ(run.trainer().checksum(), result.checksum);
  }
}

TEST(PhaseMap, HasAxesOfItsOwnForEveryKindOfModel) {
  const std::unique_ptr<Backend> backend = make_cpu_backend(1);
  const auto usual = [&](const Recipe& recipe) {
    AnalysedRun run({recipe, std::nullopt}, *backend);
    run.choose("phase_map", nlohmann::json::object());
    return run.describe().phase_map;
  };
  const auto small = usual(small_recipe());
  EXPECT_THAT(small->x, HasSubstr("learning_rate=log:"));
  EXPECT_THAT(small->y, HasSubstr("layers.1.ska.ridge=log:"));
  EXPECT_EQ(small->sweep.results.size(), 0u);
  for (const char* preset : {"mqar-attention", "gka-adaptive", "forecast"})
    EXPECT_TRUE(usual(parse_recipe(find_preset(preset).text, preset))) << preset;
}

TEST(PhaseMap, ShowsAnotherNumberWithoutTrainingAgain) {
  const std::unique_ptr<Backend> backend = make_cpu_backend(1);
  AnalysedRun analysed({small_recipe(), std::nullopt}, *backend);
  analysed.choose("phase_map", small_map());
  for (int i = 0; i < 20; ++i) analysed.advance(Analysis::phase_map);
  ASSERT_EQ(analysed.describe().phase_map->sweep.results.size(), 1u);
  analysed.choose("phase_map", {{"result", "loss"}});
  EXPECT_EQ(analysed.describe().phase_map->shown, 0u);
  EXPECT_EQ(analysed.describe().phase_map->sweep.results.size(), 1u);
  analysed.choose("phase_map", {{"steps", 13}});
  EXPECT_EQ(analysed.describe().phase_map->sweep.results.size(), 0u) << "other runs";
  EXPECT_THROW(analysed.choose("phase_map", {{"x", "learning_rat=1"}}), Error);
  EXPECT_THROW(analysed.choose("phase_map", {{"colour", "loss"}}), Error);
}

// What is opened from a map shows the map; a training and what is seen of it do not depend on a map.
TEST(PhaseMap, StaysWhenOneOfItsRunsIsOpenedAndChangesNoTraining) {
  const std::unique_ptr<Backend> backend = make_cpu_backend(1);
  AnalysedRun analysed({small_recipe(), std::nullopt}, *backend), alone({small_recipe(), std::nullopt}, *backend);
  analysed.choose("phase_map", small_map());
  for (int i = 0; i < 30; ++i) {
    analysed.advance(Analysis::phase_map);
    analysed.train_step();
    alone.train_step();
  }
  EXPECT_EQ(analysed.trainer().checksum(), alone.trainer().checksum());
  const std::size_t finished = analysed.describe().phase_map->sweep.results.size();
  ASSERT_GE(finished, 1u);
  const auto place = static_cast<std::int64_t>(analysed.describe().phase_map->sweep.results[0].row);
  AnalysedRun opened({*analysed.opened_by({"phase_map", nlohmann::json{{"open", place}}}), std::nullopt}, *backend);
  opened.take_over(analysed);
  ASSERT_TRUE(opened.describe().phase_map);
  EXPECT_EQ(opened.describe().phase_map->sweep.results.size(), finished);
  AnalysedRun other({small_recipe(), std::nullopt}, *backend);
  other.take_over(analysed);
  EXPECT_FALSE(other.describe().phase_map) << "no place of the map";
  AnalysedRun reopened({opened.recipe(), std::nullopt}, *backend);
  reopened.advance(Analysis::phase_map);
  EXPECT_EQ(reopened.describe().phase_map->x, small_map()["x"].get<std::string>()) << "the recipe carries the axes";
}

}  // namespace
}  // namespace afterglow
