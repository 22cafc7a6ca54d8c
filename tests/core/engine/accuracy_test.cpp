// The accuracy grid, and inspected sequences of other tasks than the run's.
#include <gmock/gmock.h>

#include <cmath>

#include "core/engine/analyses/accuracy/accuracy_view.h"
#include "core/engine/analyses/inspected/inspected_view.h"
#include "core/engine/session/analysed_run.h"
#include "core/io/error.h"
#include "core/tasks/task.h"
#include "tests/core/engine/small_recipe.h"

namespace afterglow {
namespace {

using nlohmann::json;

struct Grid {
  explicit Grid(const json& recipe = small_recipe_json())
      : run({parse_recipe(recipe, "small"), std::nullopt}, *backend) {}
  std::shared_ptr<const AccuracyView> measured(const char* config) {
    run.ask({"accuracy_grid", json::parse(config)});
    return run.observe(set_of(Analysis::accuracy)).accuracy;
  }
  std::unique_ptr<Backend> backend = make_cpu_backend(1);
  AnalysedRun run;
};

TEST(AccuracyGrid, EachCellIsTheEvaluationOfItsTask) {
  Grid grid;
  grid.run.go_to(12);
  const auto view = grid.measured(R"({"examples": 11, "longest": 128})");
  ASSERT_TRUE(view);
  EXPECT_TRUE(view->is_complete);
  EXPECT_EQ(view->step, 12);
  EXPECT_EQ(view->measured, view->planned);
  EXPECT_EQ(view->own_length, 24);
  ASSERT_FALSE(view->grids.empty());
  EXPECT_EQ(view->grids.front().task, "sysprompt");
  EXPECT_TRUE(view->grids.front().is_own);
  int cells = 0;
  for (const AccuracyGrid& one : view->grids) {
    EXPECT_THAT(one.lengths, testing::ElementsAre(64, 128));
    for (const AccuracyCell& cell : one.cells) {
      ASSERT_TRUE(cell.fits);
      const auto task = make_task(evaluation_config(json::parse(one.config), {cell.bindings, cell.length}));
      EXPECT_EQ(cell.accuracy, grid.run.trainer().evaluate(11, task.get())) << one.task << cell.bindings;
      EXPECT_EQ(cell.examples, 11);
      ++cells;
    }
  }
  EXPECT_EQ(cells, view->planned);
}

TEST(AccuracyGrid, EveryCellIsAskedALittleFirst) {
  Grid grid;
  grid.run.choose("accuracy_grid", json{{"examples", 20}, {"longest", 64}});
  const auto now = [&] { return grid.run.describe().accuracy; };
  const auto untouched = [&] {
    int count = 0;
    for (const AccuracyGrid& one : now()->grids)
      count += static_cast<int>(std::ranges::count(one.cells, 0, &AccuracyCell::asked));
    return count;
  };
  grid.run.advance(Analysis::accuracy);
  const int cells = now()->planned;
  for (int visit = 1; visit <= cells; ++visit) {
    EXPECT_EQ(now()->measured, 0);
    EXPECT_EQ(untouched(), cells - visit + 1);
    grid.run.advance(Analysis::accuracy);
  }
  EXPECT_EQ(untouched(), 0);
}

TEST(AccuracyGrid, ANewStepIsMeasuredOnceEveryCellOfTheOldOneIsKnown) {
  Grid grid;
  grid.run.choose("accuracy_grid", json{{"examples", 16}, {"longest", 64}});
  grid.run.advance(Analysis::accuracy);
  const int cells = grid.run.describe().accuracy->planned;
  ASSERT_TRUE(grid.run.train_step());
  for (int visit = 0; visit < cells; ++visit) grid.run.advance(Analysis::accuracy);
  EXPECT_EQ(grid.run.describe().accuracy->step, 0);
  grid.run.advance(Analysis::accuracy);
  EXPECT_EQ(grid.run.describe().accuracy->step, 1);
}

TEST(AccuracyGrid, TasksWithoutBindingsHaveNone) {
  json recipe = small_recipe_json();
  recipe["task"] = {{"kind", "symbolsoup"}};
  const auto view = Grid(recipe).measured("{}");
  ASSERT_TRUE(view);
  EXPECT_TRUE(view->grids.empty());
  EXPECT_TRUE(view->is_complete);
}

TEST(AccuracyGrid, RefusesWhatItCannotAsk) {
  Grid grid;
  for (const char* value : {R"({"examples": 0})", R"({"longest": 8})", R"({"bindings": 4})"})
    EXPECT_THROW(grid.run.ask({"accuracy_grid", json::parse(value)}), Error) << value;
}

TEST(AskableTasks, AreTheOwnOnesAndThoseInTheSameLanguage) {
  const auto kinds = [](const json& config) {
    std::vector<std::string> names;
    for (const json& task : askable_tasks(config)) names.push_back(task.at("kind"));
    return names;
  };
  const json mixture = json::parse(
      R"({"kind": "mixed", "tasks": [{"kind": "tooltrace", "bindings": 3}, "niah", {"kind": "niah", "bindings": 2}]})");
  EXPECT_THAT(kinds(mixture), testing::ElementsAre("tooltrace", "niah", "sysprompt", "multihop", "commonword", "mqar"));
  EXPECT_EQ(askable_tasks(mixture).front().at("bindings"), 3);
  EXPECT_THAT(kinds({{"kind", "mqar"}}), testing::ElementsAre("mqar")) << "it has a language of its own";
  EXPECT_TRUE(kinds({{"kind", "symbolsoup"}}).empty());
}

TEST(OtherTasks, AreProbedWithTheirOwnLengthAndBack) {
  Grid grid;
  grid.run.go_to(5);
  const auto tokens = [&] {
    std::vector<int> ids;
    for (const TokenView& token : grid.run.observe(all_analyses).inspected->tokens) ids.push_back(token.id);
    return ids;
  };
  const std::vector<int> own = tokens();
  EXPECT_EQ(own.size(), 24U);
  grid.run.ask({"probe", R"({"index": 2, "task": {"kind": "niah", "bindings": 3, "length": 40}})"_json});
  const Example example =
      make_task({{"kind", "niah"}, {"bindings", 3}, {"length", 40}})->example(3, 2, Split::held_out);
  EXPECT_EQ(tokens(), std::vector<int>(example.tokens.begin(), example.tokens.end()));
  const Observation seen = grid.run.observe(all_analyses);
  EXPECT_EQ(seen.inspected->task, "niah, 3 bindings, 40 tokens");
  EXPECT_EQ(seen.trace->tokens.size(), 40U);
  EXPECT_EQ(seen.inspected->tokens.back().target, example.targets.back());
  AnalysedRun again({parse_recipe(seen.recipe, "again"), std::nullopt}, *grid.backend);
  EXPECT_EQ(again.observe(set_of(Analysis::inspected)).inspected->tokens.size(), 40U) << "it travels in the recipe";
  ASSERT_TRUE(grid.run.undo());
  EXPECT_EQ(tokens(), own);
  ASSERT_TRUE(grid.run.redo());
  grid.run.ask({"probe", R"({"index": 0, "task": null})"_json});
  EXPECT_EQ(tokens(), own);
}

TEST(OtherTasks, OfAnotherLanguageOrTooLongAreRefused) {
  Grid grid;
  const auto refused = [&](const char* value, const char* why) {
    try {
      grid.run.ask({"probe", json::parse(value)});
      FAIL() << value;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::bad_input);
      EXPECT_THAT(error.what(), testing::HasSubstr(why));
    }
    EXPECT_EQ(grid.run.observe(set_of(Analysis::inspected)).inspected->tokens.size(), 24U);
  };
  refused(R"({"task": {"kind": "mqar", "vocab": 512}})", "512 tokens and the model 128");
  refused(R"({"task": {"kind": "niah", "length": 4096}})", "too many to read");
  refused(R"({"task": {"kind": "forecast"}})", "");
  refused(R"({"task": {"kind": "needle"}})", "There is no task kind");
  refused(R"({"task": 3})", "");
  refused(R"({"number": 3})", "number");
}

}  // namespace
}  // namespace afterglow
