// Runs on tokens with a memory of training: learning, exact repetition, snapshots, what is shown of them.
#include <gmock/gmock.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "core/engine/session/analysed_run.h"
#include "core/io/error.h"
#include "core/tasks/prefixed_task.h"
#include "tests/core/engine/train_to.h"

namespace afterglow {
namespace {

using nlohmann::json;

Recipe with_memory() {
  return parse_recipe(
      {{"seed", 3},
       {"model",
        {{"d_model", 16},
         {"vocab", 128},
         {"blocks",
          {{{"mixer", {{"kind", "attention"}, {"n_heads", 2}}}, {"mlp", {{"kind", "swiglu"}, {"d_ff", 16}}}},
           {{"mixer", {{"kind", "ska"}, {"H", 2}, {"r", 4}, {"P", 8}, {"mode", "masked"}}}}}},
         {"memory", {{"memory_tokens", 3}, {"n_components", 4}, {"memory_depth", 10}}}}},
       {"task", {{"kind", "sysprompt"}, {"bindings", 2}, {"length", 12}}},
       {"training", {{"steps", 60}, {"batch", 8}, {"learning_rate", 0.003}, {"warmup", 5}, {"evaluate_every", 20}}}},
      "test");
}

TEST(PrefixedTask, MovesEverySequenceBehindItsPlaces) {
  const std::shared_ptr<const Task> inner = make_task({{"kind", "sysprompt"}, {"bindings", 2}, {"length", 12}});
  const PrefixedTask placed(inner, 3);
  EXPECT_EQ(placed.length(), 15);
  EXPECT_EQ(placed.vocab(), inner->vocab());
  for (const Split split : {Split::train, Split::held_out}) {
    for (std::uint64_t index = 0; index < 20; ++index) {
      const Example own = inner->example(7, index, split), moved = placed.example(7, index, split);
      ASSERT_EQ(moved.tokens.size(), 15u);
      for (std::size_t t = 0; t < 3; ++t) {
        EXPECT_EQ(moved.tokens[t], 0);
        EXPECT_EQ(moved.targets[t], -1);
        EXPECT_EQ(moved.context[t], 1);
      }
      for (std::size_t t = 0; t < 12; ++t) {
        EXPECT_EQ(moved.tokens[t + 3], own.tokens[t]);
        EXPECT_EQ(moved.targets[t + 3], own.targets[t]);
        EXPECT_EQ(moved.context[t + 3], own.context[t]);
      }
      ASSERT_EQ(moved.sources.size(), own.sources.size());
      for (std::size_t i = 0; i < own.sources.size(); ++i) EXPECT_EQ(moved.sources[i], own.sources[i] + 3);
    }
  }
}

TEST(MemoryRun, SameRecipeSameBitsForAnyNumberOfThreads) {
  std::string first;
  for (const int threads : {1, 2, 3}) {
    const auto backend = make_cpu_backend(threads);
    TrainingRun run(with_memory(), *backend);
    train_to(run, 15);
    if (first.empty()) first = run.trainer().checksum();
    EXPECT_EQ(run.trainer().checksum(), first);
    EXPECT_EQ(run.trainer().memory().appended, 15);
    EXPECT_EQ(run.trainer().memory().rows.size(), 10u * 16u);
  }
}

TEST(MemoryRun, RewindsAndResumesExactlyWithItsMemory) {
  const auto backend = make_cpu_backend(2);
  TrainingRun run(with_memory(), *backend);
  train_to(run, 9);
  const std::string at_nine = run.trainer().checksum();
  const Snapshot snapshot = run.snapshot();
  train_to(run, 25);
  const std::string at_end = run.trainer().checksum();
  run.go_to(2);
  run.go_to(9);
  EXPECT_EQ(run.trainer().checksum(), at_nine);
  run.go_to(25);
  EXPECT_EQ(run.trainer().checksum(), at_end);
  TrainingRun resumed(snapshot, *backend);
  EXPECT_EQ(resumed.trainer().checksum(), at_nine);
  EXPECT_EQ(resumed.trainer().evaluate(16), [&] {
    run.go_to(9);
    return run.trainer().evaluate(16);
  }()) << "the tokens are those of the file before anything is trained";
  train_to(resumed, 25);
  EXPECT_EQ(resumed.trainer().checksum(), at_end);
}

TEST(MemoryRun, ASnapshotWithoutItsHistoryIsRefused) {
  const auto backend = make_cpu_backend(1);
  TrainingRun run(with_memory(), *backend);
  train_to(run, 6);
  Snapshot bad = run.snapshot();
  bad.file.metadata.erase("memory.appended");
  EXPECT_THROW(TrainingRun(bad, *backend), Error);
}

TEST(MemoryRun, TheMemoryBelongsToTheRunAndItsParts) {
  const auto backend = make_cpu_backend(2);
  TrainingRun run(with_memory(), *backend);
  std::int64_t sum = 0, memory = 0;
  for (const ModelPart& part : run.trainer().parts()) {
    sum += part.parameters;
    if (part.kind == "spectral_memory") memory = part.parameters;
  }
  EXPECT_EQ(sum, run.trainer().parameters().count());
  // 64 -> 128 -> 48 with biases, the norm, and the pooling of width 16.
  EXPECT_EQ(memory, 64 * 128 + 128 + 128 * 48 + 48 + 2 * 16 + 16 + 1);
  EXPECT_EQ(run.trainer().task().length(), 15);
  train_to(run, 12);
  const auto other = make_task({{"kind", "sysprompt"}, {"bindings", 1}, {"length", 20}});
  const double accuracy = run.trainer().evaluate(16, other.get());
  EXPECT_GE(accuracy, 0.0);
  EXPECT_LE(accuracy, 1.0);
}

TEST(MemoryRun, ShowsWhoReadsTheTokens) {
  const auto backend = make_cpu_backend(2);
  AnalysedRun analysed({with_memory(), std::nullopt}, *backend);
  analysed.go_to(12);
  analysed.advance(Analysis::spectra, Budget::whole);
  analysed.advance(Analysis::trace, Budget::whole);
  analysed.advance(Analysis::inspected, Budget::whole);
  const Observation now = analysed.describe();
  ASSERT_TRUE(now.memory && now.trajectory && now.trace);
  EXPECT_FALSE(now.forecast);
  EXPECT_EQ(now.trajectory->summary, "pooled summary of a batch");
  EXPECT_EQ(now.trace->steps.size(), 15u);
  const MemoryView& view = *now.memory;
  EXPECT_EQ(view.step, 12);
  EXPECT_EQ(view.tokens, 3);
  EXPECT_EQ(view.input_length, 12);
  EXPECT_EQ(view.history_rows, 10);
  EXPECT_EQ(view.eigenvalues.size(), 4u);
  EXPECT_TRUE(std::isfinite(view.accuracy));
  EXPECT_TRUE(std::isfinite(view.without));
  ASSERT_EQ(view.attention.size(), 2u);
  EXPECT_EQ(view.attention[0].layer, "0 attention");
  EXPECT_TRUE(view.attention[0].reads.empty()) << "causal: memory comes first";
  ASSERT_EQ(view.attention[0].is_read.size(), 12u);
  for (const std::vector<double>& row : view.attention[0].is_read) {
    EXPECT_GT(row[0] + row[1] + row[2], 0.0);
    EXPECT_LT(row[0] + row[1] + row[2], 1.0);
  }
  const std::string before = analysed.trainer().checksum();
  analysed.advance(Analysis::trace, Budget::whole);
  EXPECT_EQ(analysed.describe().memory->accuracy, view.accuracy) << "the memory is back";
  EXPECT_EQ(analysed.trainer().checksum(), before);
  analysed.advance(Analysis::influence, Budget::whole);
  EXPECT_TRUE(analysed.describe().influence);
}

TEST(MemoryRun, ShowsTheWayFromTheBufferToTheTokens) {
  const auto backend = make_cpu_backend(1);
  AnalysedRun analysed({with_memory(), std::nullopt}, *backend);
  analysed.go_to(2);
  analysed.advance(Analysis::trace, Budget::whole);
  const MemoryView early = *analysed.describe().memory;
  EXPECT_TRUE(early.buffer.empty() && early.components.empty() && early.change_without.empty())
      << "too short a history";
  analysed.go_to(12);
  analysed.advance(Analysis::trace, Budget::whole);
  const MemoryView view = *analysed.describe().memory;
  ASSERT_EQ(view.buffer.size(), 10u * 16u);
  ASSERT_EQ(view.modes.size(), 4u);
  ASSERT_EQ(view.components.size(), 4u * 16u);
  EXPECT_EQ(view.token_values.size(), 3u * 16u);
  EXPECT_EQ(view.change_without.size(), 4u);
  ASSERT_EQ(view.pooling.size(), 12u);
  EXPECT_NEAR(std::accumulate(view.pooling.begin(), view.pooling.end(), 0.0), 1, 1e-5);
  // c_k = sqrt(λ_k) φ_k^T Hc up to the sign, of the buffer as it is shown.
  for (std::size_t k = 0; k < 4; ++k) {
    std::vector<double> made(16, 0.0);
    for (std::size_t i = 0; i < view.buffer.size(); ++i)
      made[i % 16] += std::sqrt(view.eigenvalues[k]) * view.modes[k][i / 16] * static_cast<double>(view.buffer[i]);
    double apart = 0, opposite = 0, size = 0;
    for (std::size_t j = 0; j < 16; ++j) {
      const auto own = static_cast<double>(view.components[k * 16 + j]);
      apart += std::pow(made[j] - own, 2);
      opposite += std::pow(made[j] + own, 2);
      size += own * own;
    }
    EXPECT_LT(std::min(apart, opposite), 1e-6 * size) << k;
  }
  // Leaving modes out in turn leaves nothing behind.
  TrainingRun unwatched(with_memory(), *backend);
  train_to(unwatched, 20);
  analysed.go_to(20);
  EXPECT_EQ(analysed.trainer().checksum(), unwatched.trainer().checksum());
}

TEST(MemoryRun, ItsSettingsActFromTheNextStepOnAndAreRepeatedExactly) {
  const auto backend = make_cpu_backend(1);
  TrainingRun run(with_memory(), *backend), plain(with_memory(), *backend);
  train_to(run, 14);
  run.set("memory.strategy", 1);
  run.set("memory.tau", 3);
  train_to(run, 18);
  run.set("memory.modes", 2);
  train_to(run, 22);
  const std::string at_end = run.trainer().checksum();
  train_to(plain, 22);
  EXPECT_NE(plain.trainer().checksum(), at_end);
  run.go_to(16);
  EXPECT_EQ(run.trainer().get("memory.modes"), 4);
  EXPECT_EQ(run.trainer().get("memory.strategy"), 1);
  run.go_to(22);
  EXPECT_EQ(run.trainer().checksum(), at_end);
  TrainingRun again(run.recipe(), *backend);
  train_to(again, 22);
  EXPECT_EQ(again.trainer().checksum(), at_end);
  EXPECT_THROW(run.set("memory.without", 5), Error);
  EXPECT_THROW(run.set("memory.modes", 5), Error);
}

// Of four modes the last one switched off is the three strongest kept.
TEST(MemoryRun, AModeMayBeSwitchedOff) {
  const auto backend = make_cpu_backend(1);
  TrainingRun off(with_memory(), *backend), kept(with_memory(), *backend), other(with_memory(), *backend);
  for (TrainingRun* run : {&off, &kept, &other}) train_to(*run, 14);
  off.set("memory.without", 4);
  kept.set("memory.modes", 3);
  other.set("memory.without", 1);
  for (TrainingRun* run : {&off, &kept, &other}) train_to(*run, 18);
  EXPECT_EQ(off.trainer().checksum(), kept.trainer().checksum());
  EXPECT_NE(off.trainer().checksum(), other.trainer().checksum());
}

// Rows kept are a shorter history: a run whose memory holds 6 rows goes the same way as one of 10 that keeps 6.
TEST(MemoryRun, KeptRowsAreAShorterHistory) {
  const auto backend = make_cpu_backend(1);
  Recipe shorter = with_memory();
  shorter.model["memory"]["memory_depth"] = 6;
  TrainingRun kept(with_memory(), *backend), whole(with_memory(), *backend), born(shorter, *backend);
  kept.set("memory.rows", 6);
  for (TrainingRun* run : {&kept, &whole, &born}) train_to(*run, 14);
  const auto weights = [](TrainingRun& run) {
    std::vector<double> all;
    for (Parameter& parameter : run.trainer().parameters().all()) {
      const std::vector<double> own = run.trainer().parameters().download(parameter.value);
      all.insert(all.end(), own.begin(), own.end());
    }
    return all;
  };
  EXPECT_EQ(weights(kept), weights(born));
  EXPECT_NE(weights(kept), weights(whole));
  const std::string at_end = kept.trainer().checksum();
  kept.set("memory.tokens", 1);
  train_to(kept, 17);
  const std::string later = kept.trainer().checksum();
  kept.go_to(14);
  EXPECT_EQ(kept.trainer().checksum(), at_end);
  kept.go_to(17);
  EXPECT_EQ(kept.trainer().checksum(), later);
  EXPECT_THROW(kept.set("memory.tokens", 4), Error);
  EXPECT_THROW(kept.set("memory.rows", 11), Error);
  EXPECT_THROW(kept.set("memory.rows", 3), Error) << "fewer rows than can be decomposed";
}

TEST(MemoryRun, ShowsWhatLessOfTheMemoryWouldDo) {
  const auto backend = make_cpu_backend(1);
  AnalysedRun analysed({with_memory(), std::nullopt}, *backend);
  analysed.go_to(12);
  analysed.advance(Analysis::trace, Budget::whole);
  const MemoryView whole = *analysed.describe().memory;
  ASSERT_EQ(whole.less.size(), 3u);
  EXPECT_EQ(whole.less[0].kept, (std::vector<int>{0, 1, 2, 4}));
  EXPECT_EQ(whole.less[1].kept, (std::vector<int>{0, 1, 3}));
  EXPECT_EQ(whole.less[2].kept, (std::vector<int>{4, 5, 10}));
  for (const MemoryLess& less : whole.less) {
    ASSERT_EQ(less.change.size(), less.kept.size());
    EXPECT_EQ(less.now, less.whole);
    EXPECT_EQ(less.change.back(), 0);
  }
  EXPECT_EQ(whole.change_now, 0);
  EXPECT_NEAR(whole.less[1].change[0], whole.without - whole.accuracy, 1e-12) << "no token is the memory switched off";
  const std::string before = analysed.trainer().checksum();

  analysed.set("memory.rows", 5);
  analysed.set("memory.modes", 2);
  analysed.advance(Analysis::trace, Budget::whole);
  const MemoryView less = *analysed.describe().memory;
  EXPECT_EQ(less.history_rows, 5);
  EXPECT_EQ(less.buffer.size(), 5u * 16u);
  ASSERT_FALSE(less.modes.empty());
  EXPECT_EQ(less.modes[0].size(), 5u) << "temporal modes follow the rows";
  EXPECT_NE(less.eigenvalues, whole.eigenvalues);
  EXPECT_EQ(std::vector<float>(less.components.begin() + 32, less.components.end()), std::vector<float>(32));
  // Of strategy B the kernel's eigenvalues are no shares of the history; what its modes find in the rows is.
  analysed.set("memory.strategy", 1);
  analysed.advance(Analysis::trace, Budget::whole);
  const MemoryView smooth = *analysed.describe().memory;
  ASSERT_EQ(smooth.explained.size(), 4u);
  double energy = 0, found = 0;
  for (const float value : smooth.buffer) energy += static_cast<double>(value) * value;
  for (std::size_t k = 0; k < 4; ++k) {
    for (std::size_t c = 0; c < 16; ++c) {
      double inner = 0;
      for (std::size_t t = 0; t < 5; ++t) inner += smooth.modes[k][t] * static_cast<double>(smooth.buffer[t * 16 + c]);
      found += inner * inner;
    }
    EXPECT_NEAR(smooth.explained[k], found / energy, 1e-5) << k;
  }
  analysed.set("memory.strategy", 0);
  EXPECT_EQ(less.less[0].now, 2);
  EXPECT_EQ(less.less[2].now, 5);
  EXPECT_EQ(less.less[2].change, whole.less[2].change) << "measured with all of the other two, whatever they are now";
  EXPECT_NEAR(less.accuracy - whole.accuracy, less.change_now, 1e-12);
  EXPECT_EQ(analysed.trainer().checksum(), before) << "looking changes no weight";
}

TEST(MemoryRun, AModelWithoutMemoryHasNoView) {
  const auto backend = make_cpu_backend(1);
  Recipe recipe = with_memory();
  recipe.model.erase("memory");
  AnalysedRun analysed({recipe, std::nullopt}, *backend);
  analysed.advance(Analysis::trace, Budget::whole);
  EXPECT_FALSE(analysed.describe().memory);
  EXPECT_EQ(analysed.trainer().task().length(), 12);
}

}  // namespace
}  // namespace afterglow
