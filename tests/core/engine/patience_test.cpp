// Runs with patience: they end when validation no longer improves and count by its best step, resumed ones too.
#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>

#include "core/engine/training/training_run.h"
#include "core/io/error.h"
#include "tests/core/engine/small_forecaster.h"

namespace afterglow {
namespace {

/// A rate far too high, so that validation soon gets worse.
Recipe impatient(std::int64_t patience = 3) {
  return parse_recipe({{"seed", 3},
                       {"model", small_forecaster()},
                       {"task", {{"kind", "forecast"}, {"length", 24}, {"horizon", 6}}},
                       {"training",
                        {{"steps", 400},
                         {"batch", 4},
                         {"learning_rate", 0.03},
                         {"warmup", 5},
                         {"evaluate_every", 4},
                         {"evaluate_examples", 16},
                         {"patience", patience}}}},
                      "test");
}

struct Ended {
  std::int64_t last = 0, chosen = 0;
  std::string checksum;
};

Ended end_of(TrainingRun& run) {
  while (!run.finished() && run.train_step()) {
  }
  Ended ended{run.step(), run.chosen_step(), ""};
  run.go_to(run.chosen_step());
  ended.checksum = run.trainer().checksum();
  return ended;
}

TEST(Patience, EndsTheRunAndCountsByItsBestStep) {
  const auto backend = make_cpu_backend(2);
  TrainingRun run(impatient(), *backend, 0);  // the best state is kept whatever the limit
  std::vector<std::string> checksums(401);
  while (!run.finished()) {
    ASSERT_TRUE(run.train_step()) << run.failure();
    checksums[static_cast<std::size_t>(run.step())] = run.trainer().checksum();
  }
  const RunCurves curves = run.curves();
  ASSERT_LT(run.step(), 400) << "validation never got worse; the test needs a higher rate";
  ASSERT_GE(curves.held_out_accuracy.size(), 4u);
  const std::size_t last = curves.held_out_accuracy.size() - 1;
  for (std::size_t i = last - 2; i <= last; ++i)
    EXPECT_LE(curves.held_out_accuracy[i], curves.held_out_accuracy[last - 3]) << "three in a row brought nothing";
  EXPECT_EQ(run.best_step(), static_cast<std::int64_t>(curves.held_out_step[last - 3]));
  const std::int64_t ended = run.step(), best = run.chosen_step();
  EXPECT_EQ(best, ended - 12);
  run.go_to(best);
  EXPECT_EQ(run.trainer().checksum(), checksums[static_cast<std::size_t>(best)]);
  EXPECT_FALSE(run.finished());
  const Ended again = end_of(run);
  EXPECT_EQ(again.last, ended) << "training on from the best step repeats what came";
  EXPECT_EQ(again.chosen, best);
}

TEST(Patience, WithoutItEveryStepIsTrainedAndTheLastOneCounts) {
  const auto backend = make_cpu_backend(1);
  Recipe recipe = impatient(0);
  recipe.training.steps = 40;
  TrainingRun run(recipe, *backend);
  const Ended ended = end_of(run);
  EXPECT_EQ(ended.last, 40);
  EXPECT_EQ(ended.chosen, 40);
}

TEST(Patience, ResumedRunsEndTheSame) {
  const auto backend = make_cpu_backend(2);
  TrainingRun whole(impatient(), *backend);
  const Ended expected = end_of(whole);
  // Before the first evaluation, at the best one, after it, and one step before the end.
  for (const std::int64_t step : {std::int64_t{3}, expected.chosen, expected.chosen + 5, expected.last - 1}) {
    TrainingRun first(impatient(), *backend);
    first.go_to(step);
    TrainingRun resumed(first.snapshot(), *backend);
    const Ended ended = end_of(resumed);
    EXPECT_EQ(ended.last, expected.last) << "resumed at " << step;
    EXPECT_EQ(ended.chosen, expected.chosen) << "resumed at " << step;
    EXPECT_EQ(ended.checksum, expected.checksum) << "resumed at " << step;
  }
}

TEST(Patience, ThatBeginsLaterIsTheSameInResumedRuns) {
  const auto backend = make_cpu_backend(2);
  for (const std::int64_t begin : {7, 30}) {
    Recipe recipe = impatient(0);
    recipe.commands.push_back({begin, {"set", R"({"key":"patience","to":3})"_json}});
    TrainingRun whole(recipe, *backend, 0);
    const Ended expected = end_of(whole);
    ASSERT_LT(expected.last, 400) << "validation never got worse; the test needs a higher rate";
    for (const std::int64_t step : {std::int64_t{5}, begin - 1, begin, expected.last}) {
      TrainingRun first(recipe, *backend, 0);
      first.go_to(step);
      TrainingRun resumed(first.snapshot(), *backend, 0);
      const Ended ended = end_of(resumed);
      EXPECT_EQ(ended.last, expected.last) << "from " << begin << ", resumed at " << step;
      EXPECT_EQ(ended.chosen, expected.chosen) << "from " << begin << ", resumed at " << step;
      EXPECT_EQ(ended.checksum, expected.checksum) << "from " << begin << ", resumed at " << step;
    }
  }
}

TEST(Patience, RewindingForgetsLaterEvaluations) {
  const auto backend = make_cpu_backend(2);
  TrainingRun run(impatient(), *backend);
  const Ended expected = end_of(run);
  run.go_to(expected.chosen - 1);
  EXPECT_LT(run.best_step(), expected.chosen);
  const Ended ended = end_of(run);
  EXPECT_EQ(ended.checksum, expected.checksum);
}

TEST(Patience, DamagedRecordsAreRefused) {
  const auto backend = make_cpu_backend(1);
  TrainingRun run(impatient(), *backend);
  const Ended ended = end_of(run);
  run.go_to(ended.chosen + 5);
  const Snapshot good = run.snapshot();
  TrainingRun(good, *backend);  // as it is it opens
  const auto tensor = [](Snapshot& snapshot, const std::string& name) -> HostTensor& {
    for (HostTensor& one : snapshot.file.tensors) {
      if (one.name == name) return one;
    }
    throw std::runtime_error("no tensor " + name);
  };
  const auto shorten = [](HostTensor& one) {
    one.bytes.resize(one.bytes.size() - sizeof(double));
    --one.shape[0];
  };
  const std::vector<std::pair<const char*, std::function<void(Snapshot&)>>> damages = {
      {"an evaluation without a step", [&](Snapshot& s) { shorten(tensor(s, "held_out.steps")); }},
      {"an evaluation without a value", [&](Snapshot& s) { shorten(tensor(s, "held_out.values")); }},
      {"a best step that was not evaluated", [](Snapshot& s) { s.file.metadata["best.step"] = "1"; }},
      {"a best step that is no number", [](Snapshot& s) { s.file.metadata["best.step"] = "soon"; }},
      {"no best weights",
       [](Snapshot& s) { std::erase_if(s.file.tensors, [](const auto& t) { return t.name == "best.head.weight"; }); }},
      {"best weights of another shape",
       [&](Snapshot& s) {
         tensor(s, "best.head.weight").shape = {1, 1152};
       }},
      {"a value that is not a number",
       [&](Snapshot& s) {
         const double nan = std::numeric_limits<double>::quiet_NaN();
         std::memcpy(tensor(s, "held_out.values").bytes.data(), &nan, sizeof nan);
       }},
      {"a history of training that lost a row", [&](Snapshot& s) { shorten(tensor(s, "memory.rows")); }},
      {"no history of training", [](Snapshot& s) { s.file.metadata.erase("memory.appended"); }},
      {"a history of more steps than were trained",
       [](Snapshot& s) { s.file.metadata["memory.appended"] = std::to_string(s.step + 1); }}};
  for (const auto& [what, damage] : damages) {
    Snapshot bad = good;
    damage(bad);
    try {
      TrainingRun opened(bad, *backend);
      ADD_FAILURE() << what << " was not noticed";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::bad_input) << what;
      EXPECT_NE(std::string(error.what()).find("this run"), std::string::npos) << what << ": " << error.what();
    }
  }
}

}  // namespace
}  // namespace afterglow
