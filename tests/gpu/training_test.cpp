// Whole runs on the GPU: the same bits twice, captured or not, close to the CPU's, in the session as without it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <set>
#include <thread>

#include "core/backend/host_numbers.h"
#include "core/engine/causes/state_passes.h"
#include "core/engine/inspection/observer.h"
#include "core/engine/inspection/sequence_pair.h"
#include "core/engine/session/analysed_run.h"
#include "core/engine/session/session.h"
#include "core/engine/training/pinned_array.h"
#include "core/models/step_program.h"
#include "core/ops/ops.h"
#include "gpu/cuda.h"
#include "tests/core/session/turned_worker.h"
#include "tests/gpu/gpu_test.h"

namespace afterglow {
namespace {

class GpuTraining : public testing::GpuTest {
 protected:
  static std::string checksum_after(const Recipe& recipe, std::int64_t steps, Backend& backend) {
    TrainingRun run(recipe, backend);
    run.go_to(steps);
    EXPECT_EQ(run.step(), steps) << run.failure();
    return run.trainer().checksum();
  }
};

TEST_F(GpuTraining, TwoRunsGiveTheSameBits) {
  const std::string once = checksum_after(small_recipe(), 30, *cuda_);
  EXPECT_EQ(checksum_after(small_recipe(), 30, *cuda_), once);
}

TEST_F(GpuTraining, BesideOthersARunHasTheBitsThatItHasAlone) {
  for (const Precision precision : {Precision::fp32, Precision::tf32}) {
    for (const char* preset : {"tiny", "ssm", "ssm3", "ssm-attn", "ssm-ska", "mqar-gka", "mqar-gated-deltanet"}) {
      Recipe recipe = parse_recipe(find_preset(preset).text, preset);
      recipe.precision = precision;
      const std::string alone = checksum_after(recipe, 6, *cuda_);
      cuda_->expect_side_by_side(16);
      EXPECT_EQ(checksum_after(recipe, 6, *cuda_), alone) << preset << " in " << name_of(precision);
      cuda_->expect_side_by_side(1);
    }
  }
  cuda_->set_precision(Precision::fp32);
}

TEST_F(GpuTraining, EveryPrecisionRepeatsItself) {
  for (const Precision precision : {Precision::tf32, Precision::bf16}) {
    Recipe recipe = small_recipe();
    recipe.precision = precision;
    const std::string once = checksum_after(recipe, 12, *cuda_);
    EXPECT_EQ(checksum_after(recipe, 12, *cuda_), once) << name_of(precision);
  }
  cuda_->set_precision(Precision::fp32);
}

TEST_F(GpuTraining, LossFollowsTheCpu) {
  const auto cpu = make_cpu_backend(2);
  for (const char* preset : {"tiny", "ssm-attn"}) {
    Recipe recipe = parse_recipe(find_preset(preset).text, preset);
    recipe.training.evaluate_every = 0;
    Trainer here(recipe, *cpu), there(recipe, *cuda_);
    for (int i = 0; i < 8; ++i) {
      const StepResult want = here.step(), got = there.step();
      ASSERT_TRUE(got.finite);
      EXPECT_NEAR(got.loss, want.loss, 2e-3 * want.loss) << preset << ", step " << i + 1;
      EXPECT_NEAR(got.gradient_norm, want.gradient_norm, 2e-2 * want.gradient_norm) << preset << ", step " << i + 1;
    }
  }
}

/// A vocabulary so wide that its logits never exist at once; from the third step on the step is a captured graph.
Recipe wide_recipe(const char* task) {
  nlohmann::json json = small_recipe_json();
  json["model"]["vocab"] = 8192;
  json["model"]["tie_embedding"] = true;
  json["task"] = nlohmann::json::parse(task);
  json["training"]["batch"] = 20;
  return parse_recipe(json, "wide");
}

TEST_F(GpuTraining, AWideVocabularyFollowsTheCpuAndRepeatsItself) {
  const auto cpu = make_cpu_backend(2);
  ASSERT_TRUE(has_wide_head(20 * 128, 8192));
  for (const char* task : {R"({"kind": "stories", "length": 128})",                                // all rows are asked
                           R"({"kind": "mqar", "length": 128, "bindings": 4, "vocab": 8192})"}) {  // 80 of 2560
    const Recipe recipe = wide_recipe(task);
    Trainer here(recipe, *cpu), there(recipe, *cuda_);
    for (int i = 0; i < 5; ++i) {
      const StepResult want = here.step(), got = there.step();
      ASSERT_TRUE(got.finite);
      EXPECT_NEAR(got.loss, want.loss, 2e-3 * want.loss) << task << ", step " << i + 1;
      EXPECT_NEAR(got.gradient_norm, want.gradient_norm, 2e-2 * want.gradient_norm) << task << ", step " << i + 1;
      EXPECT_NEAR(got.accuracy, want.accuracy, 0.02) << task << ", step " << i + 1;
    }
    const std::string once = checksum_after(recipe, 6, *cuda_);
    EXPECT_EQ(checksum_after(recipe, 6, *cuda_), once) << task;
  }
}

TEST_F(GpuTraining, RewindsExactlyAndFollowsChanges) {
  TrainingRun run(small_recipe(), *cuda_);
  run.go_to(9);
  const std::string nine = run.trainer().checksum();
  run.go_to(14);
  run.set("learning_rate", 1e-3);
  run.set("layers.1.ska.K", 1);
  run.set("batch", 6);
  run.go_to(20);
  const std::string twenty = run.trainer().checksum();
  run.go_to(9);
  EXPECT_EQ(run.trainer().checksum(), nine);
  run.go_to(20);
  EXPECT_EQ(run.trainer().checksum(), twenty);
}

TEST_F(GpuTraining, ANonFiniteWeightIsNamed) {
  TrainingRun run(small_recipe(), *cuda_);
  run.go_to(4);
  ParameterStore& store = run.trainer().parameters();
  const Parameter* weight = store.find("layers.1.ska.q_proj.weight");
  std::vector<double> values = store.download(weight->value);
  values[7] = std::numeric_limits<double>::quiet_NaN();
  store.upload(*weight, values);
  EXPECT_FALSE(run.train_step());
  EXPECT_EQ(run.step(), 4);
  EXPECT_THAT(run.failure(), ::testing::HasSubstr("layers.1.ska.q_proj.weight"));
}

// Small gradients of weights wait until they fill a launch, and what waits at a block's end is launched there: sums of
// the same numbers, in the order of another gathering.
TEST_F(GpuTraining, BlocksThatAreComputedTwiceTrainTheSameModel) {
  for (const Precision precision : {Precision::fp32, Precision::tf32, Precision::bf16}) {
    const auto losses_with = [&](int blocks) {
      Recipe recipe = parse_recipe(find_preset("ssm-ska").text, "ssm-ska");
      recipe.precision = precision;
      recipe.recompute = blocks;
      Trainer trainer(recipe, *cuda_);
      std::vector<double> losses;
      for (int i = 0; i < 8; ++i) losses.push_back(trainer.step().loss);
      return losses;
    };
    const std::vector<double> kept = losses_with(0), twice = losses_with(8);
    EXPECT_EQ(losses_with(8), twice) << name_of(precision);
    EXPECT_EQ(twice.front(), kept.front()) << name_of(precision);
    for (std::size_t i = 0; i < kept.size(); ++i)
      EXPECT_NEAR(twice[i], kept[i], 1e-4 * kept[i]) << name_of(precision) << ", step " << i + 1;
  }
  cuda_->set_precision(Precision::fp32);
}

TEST_F(GpuTraining, SpectraAndTraceAreThoseOfTheCpu) {
  const auto cpu = make_cpu_backend(2);
  AnalysedRun here({small_recipe(), std::nullopt}, *cpu), there({small_recipe(), std::nullopt}, *cuda_);
  for (AnalysedRun* run : {&here, &there}) {
    run->advance(Analysis::spectra, Budget::whole);
    run->advance(Analysis::trace, Budget::whole);
  }
  const Observation want = here.describe(), got = there.describe();
  ASSERT_EQ(got.spectra->heads.size(), want.spectra->heads.size());
  for (std::size_t head = 0; head < want.spectra->heads.size(); ++head) {
    const auto &a = want.spectra->heads[head], &b = got.spectra->heads[head];
    ASSERT_EQ(a.eigenvalues.size(), b.eigenvalues.size());
    for (std::size_t i = 0; i < a.eigenvalues.size(); ++i)
      EXPECT_NEAR(std::abs(a.eigenvalues[i]), std::abs(b.eigenvalues[i]), 1e-3);
    EXPECT_NEAR(a.kappa, b.kappa, 1e-2 * a.kappa);
  }
  ASSERT_EQ(got.trace->steps.size(), want.trace->steps.size());
  EXPECT_NEAR(got.trace->steps.back().top_probabilities[0], want.trace->steps.back().top_probabilities[0], 1e-4);
}

/// Logits of some tokens in the recurrent form. `position`: how many of them the state has counted.
std::vector<std::vector<double>> logits_of_tokens(Trainer& trainer, bool as_program, std::int64_t& position) {
  Backend& backend = trainer.backend();
  Tape& tape = trainer.evaluation_tape();
  ModelState state = trainer.model().make_state(backend, trainer.dtype(), 1);
  PinnedArray token(backend, {1, 1}, DType::i32);
  Var answer;
  const auto step = [&] {
    token.queue_upload();
    tape.begin(false);
    answer = trainer.model().step(tape, token.device(), state);
  };
  StepProgram program(tape, state, step);
  std::vector<std::vector<double>> all;
  for (int t = 0; t < 12; ++t) {
    token.host<std::int32_t>()[0] = t % 7;
    as_program ? program.run() : step();
    all.push_back(to_host(backend, answer.value));
  }
  position = state.position;
  return all;
}

TEST_F(GpuTraining, RecordedTokensHaveTheBitsOfPlainOnes) {
  std::set<std::string> recorded;
  for (const Preset& preset : presets()) {
    const Recipe recipe = parse_recipe(preset.text, preset.name);
    if (recipe.model.value("d_model", 1024) > 256) continue;  // a forecaster, or a model too large for a test
    Trainer trainer(recipe, *cuda_);
    if (trainer.forecast() != nullptr) continue;
    std::int64_t counted = 0;
    const auto plain = logits_of_tokens(trainer, false, counted);
    EXPECT_EQ(counted, 12) << preset.name;
    EXPECT_EQ(logits_of_tokens(trainer, true, counted), plain) << preset.name;
    if (counted < 12) recorded.insert(preset.name);  // a recorded token counts once
  }
  for (const char* name : {"tiny", "ssm", "ssm3", "ssm-ska", "mqar-gka", "mqar-gated-deltanet"})
    EXPECT_TRUE(recorded.contains(name)) << name;
  EXPECT_FALSE(recorded.contains("ssm-attn"));  // its caches grow
}

/// Also where a part's captures are computed on the host, which no program could hold.
TEST_F(GpuTraining, EveryPartCanBeTraced) {
  const auto cpu = make_cpu_backend(2);
  for (const char* preset : {"tiny-echo", "ssm3-ska", "ssm-attn", "mqar-gka", "mqar-gated-deltanet"}) {
    const Recipe recipe = parse_recipe(find_preset(preset).text, preset);
    Trainer here(recipe, *cpu), there(recipe, *cuda_);
    Observer at_home(here), on_gpu(there);
    for (int part = 0; part < static_cast<int>(here.parts().size()); ++part) {
      const auto want = at_home.trace(part), got = on_gpu.trace(part);
      const TokenStep &a = want->steps.back(), &b = got->steps.back();
      EXPECT_NEAR(b.top_probabilities[0], a.top_probabilities[0], 1e-3) << preset << ", part " << part;
      ASSERT_EQ(b.state.size(), a.state.size()) << preset << ", part " << part;
      for (std::size_t i = 0; i < a.state.size(); ++i)
        ASSERT_NEAR(b.state[i], a.state[i], 1e-3 + 1e-3 * std::abs(a.state[i])) << preset << ", part " << part;
      ASSERT_EQ(b.heads.size(), a.heads.size()) << preset << ", part " << part;
      for (std::size_t h = 0; h < a.heads.size(); ++h) EXPECT_NEAR(b.heads[h].m, a.heads[h].m, 1e-3 * a.heads[h].m);
    }
  }
}

/// Memories are put into the states between the tokens, parts of the way by numbers from the host: what is recorded of
/// the tokens before serves no longer.
TEST_F(GpuTraining, MemoriesPutBetweenTokensAnswerAsOnTheCpu) {
  const auto cpu = make_cpu_backend(2);
  const Recipe recipe = parse_recipe(find_preset("ssm-ska").text, "ssm-ska");
  Trainer here(recipe, *cpu), there(recipe, *cuda_);
  const Example clean = here.task().example(recipe.seed, 0, Split::held_out);
  const SequencePair pair = pair_of({}, clean, here.task());
  std::vector<StateCell> cells;
  for (std::size_t branch = 0; branch < here.model().branches().size(); ++branch) {
    for (const StateParts& part : state_parts(*here.model().branches()[branch].layer, *cpu, here.dtype())) {
      const int token = pair.asked - 1 - static_cast<int>(cells.size()) % 7;
      cells.push_back({branch, part.tensors, token, -1, false, 1});
      cells.push_back({branch, part.tensors, token - 8, -1, false, 0.5});
    }
  }
  ASSERT_GT(cells.size(), 8u);
  const auto run = [&](Trainer& trainer) {
    return StatePasses(trainer.model(), trainer.evaluation_tape(), trainer.dtype()).run(pair, cells);
  };
  const auto want = run(here), got = run(there);
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t row = 0; row < want.size(); ++row)
    EXPECT_THAT(got[row], ::testing::Pointwise(::testing::DoubleNear(2e-3), want[row])) << row;
  EXPECT_EQ(run(there), got);
}

TEST_F(GpuTraining, TheSessionSwitchesDeviceAndKeepsTheWeights) {
  SessionOptions options{"cpu", 2, false, 200.0};
  Session session(small_recipe_json().dump(), options);
  const auto wait_for = [&](const std::function<bool(const Observation&)>& condition) {
    for (int i = 0; i < 4000 && !condition(*session.observe()); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    return session.observe();
  };
  register_cuda_maker([](std::string* why_not) { return make_cuda_backend(0, why_not); });
  session.send({"step", R"({"count": 6})"_json});
  const auto six = wait_for([](const Observation& now) { return now.checksum_step == 6; });
  session.send({"device", R"({"name": "cuda"})"_json});
  const auto moved = wait_for([](const Observation& now) { return now.runs.size() == 2 && now.checksum_step == 6; });
  EXPECT_EQ(moved->checksum, six->checksum);
  EXPECT_NE(moved->device, six->device);
  session.send({"step", R"({"count": 6})"_json});
  wait_for([](const Observation& now) { return now.checksum_step == 12; });
  EXPECT_EQ(session.observe()->step, 12);
  EXPECT_GT(session.observe()->device_bytes, 0);
}

TEST_F(GpuTraining, LooksBesideTheTrainingLeaveItsBitsAndSeeTheSame) {
  SessionOptions options{"cuda", 0, false, 1e9};
  options.make_backend = [](const std::string&, int) { return make_cuda_backend(0, nullptr); };
  options.side_stream_from = 0;
  TurnedWorker beside(quickly_measured_recipe_json(), options);
  options.side_stream_from = 1 << 30;
  TurnedWorker alone(quickly_measured_recipe_json(), options);
  EXPECT_TRUE(beside.worker.run().uses_side_stream());
  EXPECT_FALSE(alone.worker.run().uses_side_stream());
  for (TurnedWorker* test : {&beside, &alone}) test->box.request(looks_at_the_model());
  for (const Command& command : {Command{"run"}, Command{"rewind", R"({"step": 17})"_json}}) {
    std::int64_t most = 0, before = beside.box.trained_steps();
    beside.box.send(command);
    do {
      beside.worker.turn();
      beside.box.take();
      most = std::max(most, beside.box.trained_steps() - before);
      before = beside.box.trained_steps();
    } while (beside.worker.control().running());
    if (command.name == "run") {
      EXPECT_GT(most, 2) << "steps in one round that included an analysis";
    }
    alone.after(command);
    const auto seen = beside.worker.observe(looks_at_the_model()),
               expected = alone.worker.observe(looks_at_the_model());
    EXPECT_EQ(seen->checksum, expected->checksum);
    expect_same_numbers(*seen, *expected);
    for (const Event& event : seen->events) EXPECT_NE(event.severity, Severity::failure) << event.text;
  }
}

}  // namespace
}  // namespace afterglow
