// What a run knows in addition to its weights: the steps beyond the present one after a rewind, and in a snapshot its
// past.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>

#include "core/engine/training/training_run.h"
#include "core/io/error.h"
#include "tests/core/engine/small_recipe.h"

namespace afterglow {
namespace {

std::vector<double> copy_of(const Values& values) { return {values.span().begin(), values.span().end()}; }

TEST(BothWays, WhatWasTrainedStaysAfterARewind) {
  const auto backend = make_cpu_backend(1);
  TrainingRun run(small_recipe(), *backend);
  run.go_to(7);
  run.set("clip", 0.5);
  run.go_to(30);
  const std::vector<double> losses = copy_of(run.curves().loss), held_out = copy_of(run.curves().held_out_accuracy);
  run.go_to(4);
  EXPECT_EQ(run.latest_step(), 30);
  EXPECT_EQ(run.curves().loss.size(), 4u);
  EXPECT_TRUE(run.curves().marks.empty()) << "the change comes later";
  EXPECT_EQ(copy_of(run.whole_curves().loss), losses);
  EXPECT_EQ(run.whole_curves().marks.size(), 1u);
  run.go_to(30);
  EXPECT_EQ(copy_of(run.curves().loss), losses);
  EXPECT_EQ(copy_of(run.curves().held_out_accuracy), held_out);
  EXPECT_EQ(run.trajectory().rows(30).steps.size(), 30u) << "each step once";
}

TEST(BothWays, StepsAheadAreReachedFromStatesThatWereKept) {
  const auto backend = make_cpu_backend(1);
  TrainingRun run(small_recipe(), *backend);
  run.go_to(35);
  run.go_to(3);
  run.jump_towards(34);
  EXPECT_EQ(run.step(), 30) << "states are kept every ten steps";
  run.jump_towards(36);
  EXPECT_EQ(run.step(), 30) << "no step is kept between";
}

TEST(BothWays, AThousandRandomMovesLeadToTheSameWeights) {
  const auto backend = make_cpu_backend(1);
  TrainingRun run(small_recipe(), *backend);
  std::map<std::int64_t, std::string> checksums;
  for (std::int64_t step = 0; step <= 40; ++step) {
    run.go_to(step);
    checksums[step] = run.trainer().checksum();
  }
  std::uint32_t random = 1;
  for (int move = 0; move < 1000; ++move) {
    random = random * 1664525u + 1013904223u;
    const std::int64_t step = (random >> 16) % 41;
    run.go_to(step);
    ASSERT_EQ(run.trainer().checksum(), checksums[step]) << "step " << step << ", move " << move;
    ASSERT_EQ(run.latest_step(), 40);
  }
}

TEST(BothWays, AChangeEndsWhatLiesAhead) {
  const auto backend = make_cpu_backend(1);
  TrainingRun run(small_recipe(), *backend);
  run.go_to(30);
  run.go_to(12);
  run.set("learning_rate", 0.01);
  EXPECT_EQ(run.latest_step(), 12);
  EXPECT_EQ(run.whole_curves().loss.size(), 12u);
  run.jump_towards(30);
  EXPECT_EQ(run.step(), 12) << "its states are gone, too";
  run.go_to(15);
  EXPECT_EQ(run.curves().loss.size(), 15u);
  EXPECT_EQ(run.latest_step(), 15);
}

TEST(BothWays, AFailedStepIsNoStepToGoTo) {
  const auto backend = make_cpu_backend(1);
  TrainingRun run(small_recipe(), *backend);
  run.go_to(5);
  ParameterStore& store = run.trainer().parameters();
  const Parameter* weight = store.find("layers.0.swiglu.w_down.weight");
  store.upload(*weight, std::vector<double>(static_cast<std::size_t>(weight->shape.elements()), 3e38));
  EXPECT_FALSE(run.train_step());
  EXPECT_EQ(run.curves().loss.size(), 6u) << "the curve shows where it failed";
  EXPECT_EQ(run.latest_step(), 5);
  run.go_to(3);
  EXPECT_EQ(run.whole_curves().loss.size(), 5u);
  run.go_to(8);
  EXPECT_TRUE(run.failure().empty());
  EXPECT_EQ(run.curves().loss.size(), 8u);
}

/// A run at step 12 of a recipe with a change at step 5.
struct SnapshotOfARun : testing::Test {
  SnapshotOfARun() : run(small_recipe(), *backend) {
    run.go_to(5);
    run.set("clip", 0.5);
    run.go_to(14);
    run.go_to(12);
    good = run.snapshot();
  }
  static HostTensor& tensor(Snapshot& snapshot, const std::string& name) {
    for (HostTensor& one : snapshot.file.tensors) {
      if (one.name == name) return one;
    }
    throw std::runtime_error("no tensor " + name);
  }
  void refused(const std::string& word, const std::function<void(Snapshot&)>& damage,
               ExitCode code = ExitCode::bad_input) {
    Snapshot bad = good;
    damage(bad);
    try {
      TrainingRun opened(bad, *backend);
      ADD_FAILURE() << "not noticed: " << word;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code);
      EXPECT_THAT(error.what(), testing::HasSubstr(word));
      EXPECT_THAT(error.what(), testing::StartsWith("this run")) << "as a file is named";
    }
  }

  std::unique_ptr<Backend> backend = make_cpu_backend(1);
  TrainingRun run;
  Snapshot good;
};

TEST_F(SnapshotOfARun, HoldsItsPastAndNothingBeyond) {
  const TrainingRun opened(good, *backend);
  EXPECT_EQ(copy_of(opened.whole_curves().loss), copy_of(run.curves().loss));
  EXPECT_EQ(opened.curves().loss.size(), 12u);
  EXPECT_EQ(opened.curves().marks.size(), 1u);
  EXPECT_EQ(opened.oldest_step(), 12);
  EXPECT_EQ(opened.latest_step(), 12);
}

TEST_F(SnapshotOfARun, OfAnEarlierProgramOpensWithoutCurves) {
  std::erase_if(good.file.tensors, [](const HostTensor& one) { return one.name.starts_with("curves."); });
  good.file.metadata.erase("curves.first_step");
  good.file.metadata.erase("checksum.tensors");
  TrainingRun opened(good, *backend);
  EXPECT_TRUE(opened.curves().loss.empty());
  opened.go_to(14);
  EXPECT_EQ(opened.curves().first_step, 13);
  EXPECT_EQ(opened.curves().loss.size(), 2u);
  const TrainingRun again(opened.snapshot(), *backend);
  EXPECT_EQ(again.curves().first_step, 13) << "a past that begins later is a past";
  EXPECT_EQ(again.curves().loss.size(), 2u);
}

TEST_F(SnapshotOfARun, ThatIsDamagedIsRefusedWithTheReason) {
  const auto shorten = [](HostTensor& one) {
    one.bytes.resize(one.bytes.size() - sizeof(double));
    --one.shape[0];
  };
  refused("curves.loss holds 11 steps instead of 12", [&](Snapshot& s) { shorten(tensor(s, "curves.loss")); });
  refused("curves.accuracy", [](Snapshot& s) {
    std::erase_if(s.file.tensors, [](const HostTensor& one) { return one.name == "curves.accuracy"; });
  });
  refused("held-out", [&](Snapshot& s) { shorten(tensor(s, "curves.held_out_values")); });
  refused("another shape", [&](Snapshot& s) {
    std::swap(tensor(s, "curves.layer_gradient_norms").shape[0], tensor(s, "curves.layer_gradient_norms").shape[1]);
  });
  refused("path of training", [&](Snapshot& s) { shorten(tensor(s, "curves.path_rows")); });
  refused("begin at step 400", [](Snapshot& s) { s.file.metadata["curves.first_step"] = "400"; });
  refused("curves.first_step", [](Snapshot& s) { s.file.metadata["curves.first_step"] = "soon"; });
}

TEST_F(SnapshotOfARun, WithAFlippedBitIsNoticedWhereverItIs) {
  const auto flip = [](HostTensor& one) { one.bytes[1] ^= std::byte{1}; };
  const auto checked = [&](const std::string& word, const std::function<void(Snapshot&)>& damage) {
    refused(word, damage, ExitCode::check_failed);
  };
  checked("its weights have the checksum", [&](Snapshot& s) { flip(tensor(s, "embedding.weight")); });
  checked("its weights have the checksum", [](Snapshot& s) { s.checksum = "0123456789abcdef"; });
  for (const char* name :
       {"optim.first_moment.embedding.weight", "optim.second_moment.embedding.weight", "curves.loss"})
    checked("its tensors have the checksum", [&](Snapshot& s) { flip(tensor(s, name)); });
}

}  // namespace
}  // namespace afterglow
