// Mixtures: exact proportions, interleaving, cycling of each part's bindings; and evaluation grids.
#include <gmock/gmock.h>

#include <algorithm>
#include <set>

#include "core/io/error.h"
#include "tests/core/tasks/task_support.h"

namespace afterglow {
namespace {

bool is_trace(const Example& example) { return example.tokens.back() == 5; }

TEST(Mixed, KeepsTheProportionsInEveryPeriod) {
  const auto task = task_of(R"({"kind":"mixed","tasks":["sysprompt",{"kind":"tooltrace","weight":3}]})");
  for (std::uint64_t first = 0; first < 40; first += 4) {
    int traces = 0;
    for (std::uint64_t i = 0; i < 4; ++i) traces += is_trace(task->example(1, first + i));
    EXPECT_EQ(traces, 3) << "from " << first;
  }
}

TEST(Mixed, InterleavesWhatItMixes) {
  const auto task =
      task_of(R"({"kind":"mixed","tasks":[{"kind":"sysprompt","weight":5},{"kind":"tooltrace","weight":5}]})");
  for (std::uint64_t index = 0; index < 40; index += 2)
    EXPECT_NE(is_trace(task->example(1, index)), is_trace(task->example(1, index + 1)));
}

TEST(Mixed, EveryPartCyclesThroughAllItsBindings) {
  const auto task = task_of(R"({"kind":"mixed","bindings":"1..8","length":64,"tasks":["sysprompt","tooltrace"]})");
  std::set<std::size_t> seen[2];
  for (std::uint64_t index = 0; index < 16; ++index) {
    const Example example = task->example(1, index);
    const bool trace = is_trace(example);
    const auto facts = std::count(example.context.begin(), example.context.end(), 1);
    seen[trace].insert(static_cast<std::size_t>(facts) / (trace ? 4 : 2));
  }
  const std::set<std::size_t> all = {1, 2, 3, 4, 5, 6, 7, 8};
  EXPECT_EQ(seen[0], all);
  EXPECT_EQ(seen[1], all);
}

TEST(Mixed, TwiceTheSameTaskGivesDifferentExamples) {
  const auto task = task_of(R"({"kind":"mixed","tasks":["sysprompt","sysprompt"]})");
  for (std::uint64_t index = 0; index < 8; index += 2)
    EXPECT_NE(task->example(1, index).tokens, task->example(1, index + 1).tokens);
}

TEST(Mixed, OnePartIsThatPart) {
  const auto mixture = task_of(R"({"kind":"mixed","tasks":[{"kind":"niah","weight":7}]})");
  const auto part = task_of(R"("niah")");
  for (std::uint64_t index = 0; index < 20; ++index) EXPECT_TRUE(mixture->example(5, index) == part->example(5, index));
}

TEST(Mixed, PartsMayHaveBindingsOfTheirOwn) {
  const auto task = task_of(R"({"kind":"mixed","bindings":2,"tasks":["sysprompt",{"kind":"sysprompt","bindings":5}]})");
  const Example shared = task->example(1, 0), own = task->example(1, 1);
  EXPECT_EQ(std::count(shared.context.begin(), shared.context.end(), 1), 4);
  EXPECT_EQ(std::count(own.context.begin(), own.context.end(), 1), 10);
}

TEST(Mixed, RefusesWhatCannotShareABatch) {
  EXPECT_THROW(task_of(R"({"kind":"mixed","tasks":["sysprompt",{"kind":"niah","length":65}]})"), Error);
  EXPECT_THROW(task_of(R"({"kind":"mixed","tasks":["sysprompt",{"kind":"mqar","vocab":64}]})"), Error);
  EXPECT_THROW(task_of(R"({"kind":"mixed","tasks":["sysprompt","mqar"]})"), Error) << "same size, other meaning";
}

TEST(EvaluationGrid, MarksCellsThatDoNotFit) {
  const nlohmann::json config = {{"kind", "multihop"}, {"length", 256}};
  const std::vector<EvalCell> cells = evaluation_grid(config, {3, 8}, {16, 64});
  ASSERT_EQ(cells.size(), 4u);
  EXPECT_EQ(cells[2].bindings, 8);
  EXPECT_EQ(cells[2].length, 16);
  EXPECT_TRUE(cells[0].fits() && cells[1].fits() && cells[3].fits());
  EXPECT_FALSE(cells[2].fits());
  EXPECT_THAT(cells[2].problem, testing::HasSubstr("bindings"));
  const auto task = make_task(evaluation_config(config, cells[1]));
  EXPECT_EQ(task->length(), 64);
  EXPECT_EQ(answer_places(task->example(1, 0)), std::vector<int>{63});
}

TEST(EvaluationGrid, ReachesIntoMixtures) {
  const auto config = nlohmann::json::parse(
      R"({"kind":"mixed","length":64,"bindings":"1..8","tasks":["sysprompt",{"kind":"tooltrace","bindings":2}]})");
  const auto task = make_task(evaluation_config(config, {4, 101}));
  EXPECT_EQ(task->length(), 101);
  for (std::uint64_t index = 0; index < 8; ++index) {
    const Example example = task->example(1, index);
    EXPECT_EQ(std::count(example.context.begin(), example.context.end(), 1), is_trace(example) ? 16 : 8);
  }
}

TEST(EvaluationGrid, RefusesWrongConfigurationsAndEmptyGrids) {
  EXPECT_THROW(evaluation_grid({{"kind", "nothing"}}, {1}, {64}), Error);
  EXPECT_THROW(evaluation_grid("niah", {}, {64}), Error);
  EXPECT_THROW(evaluation_grid("niah", {20}, {16, 32}), Error);
}

}  // namespace
}  // namespace afterglow
