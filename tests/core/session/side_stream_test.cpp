// Analyses of a model that run during its training: the same numbers, the same weights, and steps meanwhile.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/backend/cpu/cpu_backend.h"
#include "core/engine/analyses/forces/forces_view.h"
#include "core/io/error.h"
#include "tests/core/session/turned_worker.h"

namespace afterglow {
namespace {

/// The host has time whenever it reads a result.
class PatientBackend final : public CpuBackend {
 public:
  PatientBackend() : CpuBackend(1) {}
  void download(void* destination, const Tensor& source) override {
    if (meanwhile_) meanwhile_();
    CpuBackend::download(destination, source);
  }
  void set_yield(std::function<void()> work) override { meanwhile_ = std::move(work); }

 private:
  std::function<void()> meanwhile_;
};

class TwofoldBackend final : public CpuBackend {
 public:
  explicit TwofoldBackend(bool has_room) : CpuBackend(1), has_room_(has_room) {}
  std::unique_ptr<Backend> low_priority_backend() override {
    if (!has_room_) throw Error(ExitCode::out_of_memory, "no room for a second back end");
    return std::make_unique<PatientBackend>();
  }

 private:
  bool has_room_;
};

SessionOptions twofold(bool has_room = true) {
  SessionOptions options{"cpu", 1, false, 1e9};
  options.make_backend = [has_room](const std::string&, int) { return std::make_unique<TwofoldBackend>(has_room); };
  options.side_stream_from = 0;
  return options;
}

TEST(LooksBeside, TrainingGoesOnWhileALookWaits) {
  TurnedWorker test(small_recipe_json(), twofold());
  test.box.request(set_of(Analysis::trace) | Analysis::inspected);
  test.box.send({"run"});
  std::int64_t most = 0;
  for (std::int64_t before = 0; test.worker.control().running() || before == 0;) {
    test.worker.turn();
    test.box.take();
    const std::int64_t now = test.box.trained_steps();
    most = std::max(most, now - before);
    before = std::max<std::int64_t>(now, 1);
  }
  EXPECT_GT(most, 5) << "a trace reads a result for each of 24 tokens";
  EXPECT_EQ(test.box.trained_steps(), 40);
  EXPECT_FALSE(test.worker.run().is_under_way());
}

// They are found in float64 on the processor, from a step that the run itself rehearses.
TEST(LooksBeside, TrainingGoesOnWhileEigenvalueForcesAreFound) {
  nlohmann::json recipe = small_recipe_json();
  recipe["training"]["steps"] = 100000;  // until they are found
  TurnedWorker test(recipe, twofold());
  test.box.request(set_of(Analysis::forces));
  test.box.send({"run"});
  std::int64_t most = 0;
  std::shared_ptr<const ForcesView> found;
  for (std::int64_t before = 0; !found && before < 100000;) {
    test.worker.turn();
    const auto seen = test.box.take();
    if (seen) found = seen->forces;
    const std::int64_t now = test.box.trained_steps();
    most = std::max(most, now - before);
    before = std::max<std::int64_t>(now, 1);
  }
  EXPECT_GT(most, 5) << "of the pieces of a pass one after the other";
  ASSERT_TRUE(found);
  TurnedWorker alone(recipe);
  alone.after({"step", nlohmann::json{{"count", found->step}}});
  const auto expected = alone.worker.observe(set_of(Analysis::forces))->forces;
  ASSERT_EQ(found->heads.size(), expected->heads.size());
  EXPECT_EQ(found->gradient_norm, expected->gradient_norm);
  for (std::size_t i = 0; i < expected->heads.size(); ++i) {
    ASSERT_EQ(found->heads[i].modes.size(), expected->heads[i].modes.size());
    for (std::size_t k = 0; k < expected->heads[i].modes.size(); ++k) {
      EXPECT_EQ(found->heads[i].modes[k].by_loss, expected->heads[i].modes[k].by_loss);
      EXPECT_EQ(found->heads[i].modes[k].by_optimiser, expected->heads[i].modes[k].by_optimiser);
    }
  }
}

TEST(LooksBeside, TheRunKeepsItsBits) {
  TurnedWorker test(small_recipe_json(), twofold());
  const auto end = test.after({"run"});
  EXPECT_EQ(end->step, 40);
  EXPECT_EQ(end->checksum, checksum_without_session(40));
  EXPECT_EQ(end->runs.back().loss.size(), 40U);
  EXPECT_EQ(test.after({"rewind", R"({"step": 17})"_json})->checksum, checksum_without_session(17));
  for (const Event& event : end->events) EXPECT_NE(event.severity, Severity::failure) << event.text;
}

TEST(LooksBeside, AtRestAllNumbersAreThoseOfLooksAtTheRunItself) {
  const AnalysisSet looks = looks_at_the_model();
  TurnedWorker beside(quickly_measured_recipe_json(), twofold()), alone(quickly_measured_recipe_json());
  for (TurnedWorker* test : {&beside, &alone}) test->box.request(0);
  for (const Command& command : {Command{"step", R"({"count": 9})"_json}, Command{"probe", R"({"index": 3})"_json},
                                 Command{"set", R"({"key": "layers.1.ska.ridge", "to": 0.01})"_json},
                                 Command{"step", R"({"count": 2})"_json}, Command{"rewind", R"({"step": 9})"_json}}) {
    for (TurnedWorker* test : {&beside, &alone}) test->after(command);
    const auto seen = beside.worker.observe(looks), expected = alone.worker.observe(looks);
    EXPECT_EQ(seen->checksum, expected->checksum);
    EXPECT_EQ(seen->current & looks, looks);
    expect_same_numbers(*seen, *expected);
  }
}

TEST(LooksBeside, WhereThereIsNoRoomLooksAreMadeBetweenSteps) {
  TurnedWorker test(small_recipe_json(), twofold(false));
  const auto end = test.after({"step", R"({"count": 5})"_json});
  EXPECT_EQ(end->checksum, checksum_without_session(5));
  EXPECT_TRUE(has(end->current, Analysis::trace));
}

TEST(LooksBeside, AConditionIsJudgedBehindEveryStep) {
  std::int64_t stopped_at[2];
  for (const bool is_beside : {false, true}) {
    SessionOptions options = twofold();
    if (!is_beside) options.side_stream_from = 1 << 30;
    TurnedWorker test(small_recipe_json(), options);
    test.after({"stop_when", R"({"condition": "loss < 4.8"})"_json});
    const auto stopped = test.after({"run"});
    stopped_at[is_beside] = stopped->step;
    EXPECT_FALSE(stopped->finished);
  }
  EXPECT_GT(stopped_at[0], 1);
  EXPECT_EQ(stopped_at[1], stopped_at[0]);
}

TEST(LooksBeside, EverythingElseMayBeAskedForInBetween) {
  TurnedWorker test(small_recipe_json(), twofold());
  const Command commands[] = {{"toggle_run"},
                              {"step", R"({"count": 3})"_json},
                              {"rewind", R"({"step": 1})"_json},
                              {"set", R"({"key": "clip", "to": 0.5})"_json},
                              {"undo"},
                              {"probe", R"({"index": 3})"_json},
                              {"trace", R"({"layer": 1})"_json},
                              {"freeze", R"({"part": "1 ska"})"_json},
                              {"skip", R"({"step": 1})"_json},
                              {"branch"},
                              {"device", R"({"name": "cpu"})"_json},
                              {"reseed", R"({"seed": 5})"_json},
                              {"compare", R"({"seeds": 2})"_json}};
  constexpr int count = sizeof commands / sizeof commands[0];
  for (int i = 0; i < 3 * count; ++i) {
    test.box.send(commands[i * 5 % count]);
    for (int turn = 0; turn < 6; ++turn) {
      test.worker.turn();
      test.box.take();
      EXPECT_FALSE(test.worker.run().is_under_way());
    }
  }
  const auto end = test.after({"pause"});
  EXPECT_EQ(end->runs.back().loss.size(), static_cast<std::size_t>(end->latest_step));
  for (const Event& event : end->events) EXPECT_NE(event.severity, Severity::failure) << event.text;
}

}  // namespace
}  // namespace afterglow
