// Leaving batches out, and blame: repetitions are the training without a batch, bit for bit.
#include <gmock/gmock.h>

#include "core/engine/analyses/studies/studies_view.h"
#include "core/engine/observation/run_numbers.h"
#include "core/engine/session/analysed_run.h"
#include "core/engine/training/training_run.h"
#include "core/io/error.h"
#include "core/tasks/task.h"
#include "tests/core/engine/small_recipe.h"
#include "tests/core/engine/train_to.h"

namespace afterglow {
namespace {

Recipe without_batch(Recipe recipe, std::int64_t step) {
  recipe.commands.push_back({step - 1, {"skip"}});
  return recipe;
}

/// A run at a step, and what the command finds there.
struct Blamed {
  explicit Blamed(std::int64_t step) { run.go_to(step); }
  BlameView found(const nlohmann::json& value) {
    run.choose("blame", value);
    return *run.observe(set_of(Analysis::blame)).blame;
  }
  std::unique_ptr<Backend> backend = make_cpu_backend(1);
  AnalysedRun run{{small_recipe(), std::nullopt}, *backend};
};

TEST(SkippedBatch, ChangesNoWeightAndCountsItsStep) {
  const std::unique_ptr<Backend> backend = make_cpu_backend(1);
  TrainingRun run(without_batch(small_recipe(), 6), *backend);
  train_to(run, 5);
  const std::string before = run.trainer().checksum();
  train_to(run, 6);
  EXPECT_EQ(run.trainer().checksum(), before);
  train_to(run, 7);
  EXPECT_NE(run.trainer().checksum(), before);
  const RunCurves curves = run.curves();
  EXPECT_EQ(curves.loss.size(), 7u);
  ASSERT_EQ(curves.marks.size(), 1u);
  EXPECT_EQ(curves.marks[0].step, 6);
  TrainingRun usual(small_recipe(), *backend);
  train_to(usual, 7);
  EXPECT_EQ(usual.curves().loss[5], curves.loss[5]) << "the batch was answered by the same weights";
  EXPECT_NE(usual.curves().loss[6], curves.loss[6]);
}

TEST(SkippedBatch, IsTheSameByRewindSnapshotAndCommand) {
  const std::unique_ptr<Backend> backend = make_cpu_backend(1);
  TrainingRun whole(without_batch(small_recipe(), 6), *backend);
  train_to(whole, 12);
  const std::string expected = whole.trainer().checksum();
  whole.go_to(3);
  whole.go_to(12);
  EXPECT_EQ(whole.trainer().checksum(), expected);
  whole.go_to(5);
  TrainingRun resumed(whole.snapshot(), *backend);
  train_to(resumed, 12);
  EXPECT_EQ(resumed.trainer().checksum(), expected);
  TrainingRun told(small_recipe(), *backend);
  train_to(told, 12);
  told.go_to(5);
  told.leave_out_batch();
  EXPECT_EQ(told.latest_step(), 5) << "another future begins";
  train_to(told, 12);
  EXPECT_EQ(told.trainer().checksum(), expected);
  EXPECT_EQ(common_step(told.recipe(), whole.recipe()), common_step(whole.recipe(), whole.recipe()));
  EXPECT_EQ(common_step(small_recipe(), whole.recipe()), 5);
}

TEST(Blame, RepetitionsAreTheTrainingWithoutABatchToTheBit) {
  Blamed blamed(15);
  const BlameView view = blamed.found({{"from", 8}, {"to", 12}, {"until", 14}});
  ASSERT_EQ(view.without.size(), 5u);
  for (const RunResult& result : view.without) {
    TrainingRun repeated(without_batch(small_recipe(), static_cast<std::int64_t>(result.row)), *blamed.backend);
    train_to(repeated, 14);
    EXPECT_EQ(result.checksum, repeated.trainer().checksum()) << "without batch " << result.row;
  }
  blamed.run.go_to(14);
  ASSERT_FALSE(view.whole.empty());
  EXPECT_EQ(view.whole[0], mean_of_last(blamed.run.curves().loss, loss_steps));
  ASSERT_EQ(view.loss.size(), 7u) << "steps 8 to 14";
  EXPECT_EQ(view.loss[6], blamed.run.curves().loss[13]);
}

TEST(Blame, TheLastBatchCannotChangeTheLossOfItsOwnStep) {
  Blamed blamed(10);
  const BlameView view = blamed.found({{"from", 10}, {"to", 10}, {"until", 10}});
  ASSERT_EQ(view.without.size(), 1u);
  EXPECT_EQ(view.without[0].values[0], view.whole[0]);
}

TEST(Blame, AsksForTheHundredBatchesBeforeNowUnlessToldOtherwise) {
  Blamed blamed(0);
  EXPECT_THROW(blamed.run.choose("blame", nlohmann::json::object()), Error) << "nothing is trained yet";
  blamed.run.go_to(20);
  blamed.run.choose("blame", nlohmann::json::object());
  const auto usual = blamed.run.describe().blame;
  EXPECT_EQ(usual->first, 1);
  EXPECT_EQ(usual->last, 20);
  EXPECT_EQ(usual->until, 20);
  const auto refused = [&](std::int64_t from, std::int64_t to, std::int64_t until, const char* result) {
    const nlohmann::json value{{"from", from}, {"to", to}, {"until", until}, {"result", result}};
    EXPECT_THROW(blamed.run.choose("blame", value), Error) << value;
  };
  refused(1, 5, 21, "");      // not trained
  refused(6, 5, 20, "");      // no batch
  refused(1, 5, 20, "lose");  // no such number
}

TEST(Blame, IsMadeWhenItIsAskedForAndOnlyThen) {
  const std::unique_ptr<Backend> backend = make_cpu_backend(1);
  AnalysedRun analysed({small_recipe(), std::nullopt}, *backend);
  EXPECT_FALSE(analysed.has_work(Analysis::blame));
  EXPECT_THROW(analysed.choose("blame", nlohmann::json::object()), Error) << "nothing is trained";
  for (int i = 0; i < 6; ++i) ASSERT_TRUE(analysed.train_step());
  EXPECT_FALSE(analysed.has_work(Analysis::blame));
  analysed.choose("blame", {{"from", 4}});
  EXPECT_TRUE(analysed.has_work(Analysis::blame));
  const Observation found = analysed.observe(set_of(Analysis::blame));
  ASSERT_TRUE(found.blame);
  EXPECT_EQ(found.blame->without.size(), 3u);
  EXPECT_TRUE(analysed.is_current(Analysis::blame));
  analysed.choose("blame", {{"result", "accuracy"}, {"batch", 5}});
  EXPECT_EQ(analysed.describe().blame->without.size(), 3u) << "only shown otherwise";
  EXPECT_EQ(analysed.describe().blame->batch.step, 5);
  // Its recipe asks for the same again.
  AnalysedRun again({analysed.recipe(), std::nullopt}, *backend);
  EXPECT_FALSE(again.has_work(Analysis::blame)) << "before its steps are trained";
  again.go_to(6);
  EXPECT_EQ(again.observe(set_of(Analysis::blame)).blame->without[2].checksum, found.blame->without[2].checksum);
}

TEST(Blame, IsDroppedWithThePastThatItRepeats) {
  const std::unique_ptr<Backend> backend = make_cpu_backend(1);
  AnalysedRun analysed({small_recipe(), std::nullopt}, *backend);
  analysed.go_to(6);
  analysed.choose("blame", {{"from", 5}});
  ASSERT_TRUE(analysed.observe(set_of(Analysis::blame)).blame);
  analysed.go_to(9);
  analysed.set("learning_rate", 1e-3);
  EXPECT_TRUE(analysed.describe().blame) << "what came later changes nothing of it";
  analysed.go_to(4);
  EXPECT_TRUE(analysed.describe().blame) << "the past is still there";
  analysed.set("learning_rate", 1e-2);
  analysed.forget_results(4);
  EXPECT_FALSE(analysed.describe().blame);
  EXPECT_FALSE(analysed.has_work(Analysis::blame)) << "until its last step is there again";
}

TEST(Blame, ShowsTheSequencesThatTheStepHasSeen) {
  Blamed blamed(6);
  blamed.run.choose("blame", {{"from", 2}, {"to", 6}, {"until", 6}, {"batch", 4}});
  const ShownBatch batch = blamed.run.describe().blame->batch;
  ASSERT_EQ(batch.step, 4);
  ASSERT_EQ(batch.sequences.size(), 4u);
  const Task& task = blamed.run.trainer().task();
  std::string first;
  for (const std::int32_t token : task.example(small_recipe().seed, 3 * 4).tokens)
    first += (first.empty() ? "" : " ") + task.token_label(token);
  EXPECT_EQ(batch.sequences[0], first);
}

}  // namespace
}  // namespace afterglow
