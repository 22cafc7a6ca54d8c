// Frozen parts, and the step at which a condition begins to hold without their learning.
#include <gmock/gmock.h>

#include "core/engine/analyses/studies/studies_view.h"
#include "core/engine/session/analysed_run.h"
#include "core/io/error.h"
#include "tests/core/engine/small_recipe.h"
#include "tests/core/engine/train_to.h"

namespace afterglow {
namespace {

Recipe frozen(const std::string& part, std::int64_t step = 0) {
  Recipe recipe = small_recipe();
  recipe.commands.push_back({step, {"freeze", nlohmann::json{{"part", part}}}});
  return recipe;
}

std::vector<double> weights_of(const TrainingRun& run, const std::string& scope) {
  std::vector<double> all;
  const ParameterStore& store = run.trainer().parameters();
  for (const Parameter& parameter : store.all()) {
    if (!parameter.name.starts_with(scope)) continue;
    const std::vector<double> values = store.download(parameter.value);
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

TEST(FrozenPart, StaysWhileTheOthersLearn) {
  const std::unique_ptr<Backend> backend = make_cpu_backend(1);
  TrainingRun run(frozen("1 ska", 4), *backend), plain(small_recipe(), *backend);
  train_to(run, 4);
  train_to(plain, 4);
  EXPECT_EQ(run.trainer().checksum(), plain.trainer().checksum()) << "before it is frozen nothing differs";
  const std::vector<double> before = weights_of(run, "layers.1.ska"), other = weights_of(run, "layers.0.mamba2");
  train_to(run, 5);
  train_to(plain, 5);
  EXPECT_EQ(weights_of(run, "layers.1.ska"), before);
  EXPECT_EQ(weights_of(run, "layers.0.mamba2"), weights_of(plain, "layers.0.mamba2"))
      << "the step of the others is that of the whole training, to the bit";
  train_to(run, 9);
  EXPECT_EQ(weights_of(run, "layers.1.ska"), before);
  EXPECT_NE(weights_of(run, "layers.0.mamba2"), other);
}

TEST(FrozenPart, IsTheSameByRewindSnapshotAndCommandAndIsUndone) {
  const std::unique_ptr<Backend> backend = make_cpu_backend(1);
  TrainingRun whole(frozen("0 mamba2", 3), *backend);
  train_to(whole, 9);
  const std::string expected = whole.trainer().checksum();
  whole.go_to(1);
  whole.go_to(9);
  EXPECT_EQ(whole.trainer().checksum(), expected);
  whole.go_to(5);
  TrainingRun resumed(whole.snapshot(), *backend);
  train_to(resumed, 9);
  EXPECT_EQ(resumed.trainer().checksum(), expected);
  TrainingRun told(small_recipe(), *backend);
  train_to(told, 3);
  told.freeze("0 mamba2", true);
  train_to(told, 9);
  EXPECT_EQ(told.trainer().checksum(), expected);
  EXPECT_EQ(common_step(told.recipe(), small_recipe()), 3);
  TrainingRun undone(small_recipe(), *backend), plain(small_recipe(), *backend);
  train_to(undone, 3);
  undone.freeze("0 mamba2", true);
  ASSERT_TRUE(undone.journal().undo());
  train_to(undone, 9);
  train_to(plain, 9);
  EXPECT_EQ(undone.trainer().checksum(), plain.trainer().checksum());
  EXPECT_THROW(told.freeze("7 ska", true), Error);
  EXPECT_THROW(TrainingRun(frozen("no such"), *backend), Error);
}

// Frozen twice and taken back once, a part is still frozen: at the same step, and after some more.
TEST(Bisect, TakingBackTheFreezingOfAFrozenPartLeavesItFrozen) {
  const std::unique_ptr<Backend> backend = make_cpu_backend(1);
  TrainingRun once(small_recipe(), *backend);
  train_to(once, 3);
  once.freeze("0 mamba2", true);
  train_to(once, 9);
  for (const std::int64_t until : {3, 5}) {
    TrainingRun twice(small_recipe(), *backend);
    train_to(twice, 3);
    for (int i = 0; i < 2; ++i) twice.freeze("0 mamba2", true);
    train_to(twice, until);
    ASSERT_TRUE(twice.journal().undo());
    train_to(twice, 9);
    EXPECT_EQ(twice.trainer().checksum(), once.trainer().checksum());
    TrainingRun again(twice.recipe(), *backend);
    train_to(again, 9);
    EXPECT_EQ(twice.trainer().checksum(), again.trainer().checksum());
  }
}

TEST(Bisect, FindsTheStepOfEachRepetition) {
  const std::unique_ptr<Backend> backend = make_cpu_backend(1);
  AnalysedRun run({small_recipe(), std::nullopt}, *backend);
  run.ask({"bisect", R"({"condition": "loss < 4.8", "until": 30})"_json});
  const BisectView view = *run.observe(set_of(Analysis::bisect)).bisect;
  ASSERT_EQ(view.parts.size(), run.trainer().parts().size() + 1);
  for (const BisectedPart& part : view.parts) {
    AnalysedRun again({part.part.empty() ? small_recipe() : frozen(part.part), std::nullopt}, *backend);
    again.choose_stop({{"condition", "loss < 4.8"}});
    std::int64_t found = -1;
    while (found < 0 && again.step() < 30 && again.train_step()) {
      if (again.stop_reason()) found = again.step();
    }
    EXPECT_EQ(part.step, found) << "without " << part.part;
  }
  EXPECT_GT(view.parts[0].step, 0) << "the training itself gets there";
}

TEST(Bisect, IsAskedForAndRefusesWhatCannotBe) {
  const std::unique_ptr<Backend> backend = make_cpu_backend(1);
  AnalysedRun analysed({small_recipe(), std::nullopt}, *backend);
  EXPECT_FALSE(analysed.has_work(Analysis::bisect));
  analysed.ask({"bisect", R"({"condition": "step >= 3", "until": 6})"_json});
  EXPECT_TRUE(analysed.has_work(Analysis::bisect));
  const auto view = analysed.observe(set_of(Analysis::bisect)).bisect;
  ASSERT_TRUE(view && view->is_complete());
  for (const BisectedPart& part : view->parts) EXPECT_EQ(part.step, 3) << part.part;
  EXPECT_THROW(analysed.ask({"bisect", R"({"condition": "what"})"_json}), Error);
  EXPECT_THROW(analysed.ask({"bisect", R"({"part": "1 ska"})"_json}), Error);
}

}  // namespace
}  // namespace afterglow
