// What happens at the ends: more asked for than the GPU has, and a GPU that stops answering.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

#include "core/engine/analyses/race/layer_race.h"
#include "core/engine/training/trainer.h"
#include "core/engine/training/training_run.h"
#include "core/io/error.h"
#include "gpu/cuda.h"
#include "tests/core/engine/small_recipe.h"
#include "tests/gpu/gpu_test.h"

namespace afterglow {
namespace {

using ::testing::HasSubstr;

class GpuLimits : public testing::GpuTest {};

TEST_F(GpuLimits, AModelThatDoesNotFitSaysSoAndTheNextOneRuns) {
  nlohmann::json json = nlohmann::json::parse(find_preset("tiny").text);
  apply_assignment(json, "batch=1024");
  apply_assignment(json, "task.length=4096");  // a gigabyte for each channel-wide tensor, of which a block has dozens
  apply_assignment(json, "model.blocks.0.repeat=40");
  const std::size_t before = cuda_->held_bytes();
  try {
    Trainer trainer(parse_recipe(json, "too large"), *cuda_);
    trainer.step();
    FAIL() << "4 million tokens went through 40 blocks";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::out_of_memory);
    EXPECT_THAT(error.what(), HasSubstr("the GPU has too little memory"));
    EXPECT_THAT(error.what(), HasSubstr("take a smaller batch"));
  }
  EXPECT_EQ(cuda_->held_bytes(), before) << "what was allocated until then went back";
  TrainingRun small(small_recipe(), *cuda_);
  EXPECT_TRUE(small.train_step());
}

TEST_F(GpuLimits, MoreNumbersThan32BitsCountAreCleared) {
  const std::int64_t count = (std::int64_t{1} << 32) + 256;
  const Tensor many = cuda_->allocate_zeros(count, DType::u8);
  const Tensor end(many.as<std::byte>() + count - 256, {256}, DType::u8);
  const std::vector<std::uint8_t> ones(256, 1);
  std::vector<std::uint8_t> read(256, 7);
  cuda_->download(read.data(), end);
  EXPECT_EQ(read, std::vector<std::uint8_t>(256, 0));
  cuda_->upload(end, ones.data());
  cuda_->fill(many, 0.0);
  cuda_->download(read.data(), end);
  EXPECT_EQ(read, std::vector<std::uint8_t>(256, 0));
  cuda_->release(many.data);
}

TEST_F(GpuLimits, WeightsAloneAreHeldUntilTrainingBegins) {
  const std::size_t before = cuda_->held_bytes();
  nlohmann::json json = nlohmann::json::parse(find_preset("echo-50m").text);
  Trainer trainer(parse_recipe(json, "echo"), *cuda_);
  const std::size_t weights = trainer.parameters().values().bytes(), opened = cuda_->held_bytes() - before;
  EXPECT_LT(opened, weights + weights / 4);
  trainer.step();
  EXPECT_GT(cuda_->held_bytes() - before, 4 * weights);
}

// What is not counted: what cuBLAS and programs hold, a few percent at most.
TEST_F(GpuLimits, ThePeakOfATrainingIsItsEstimate) {
  for (const Preset& preset : presets()) {
    if (preset.name == "echo-180m") continue;  // echo-50m is the same in less time
    for (const char* precision : {"fp32", "tf32", "bf16"}) {
      nlohmann::json json = nlohmann::json::parse(preset.text);
      json["precision"] = precision;
      const Recipe recipe = parse_recipe(json, preset.name);
      const std::unique_ptr<Backend> fresh = make_cuda_backend(0, nullptr);
      const auto expected = static_cast<double>(fresh->held_bytes() + training_memory_need(recipe, *fresh).peak);
      std::size_t most = 0;
      Trainer trainer(recipe, *fresh);
      for (int i = 0; i < 4; ++i) {
        trainer.step();
        most = std::max(most, fresh->held_bytes());
      }
      EXPECT_NEAR(static_cast<double>(most), expected, 0.05 * expected) << preset.name << ' ' << precision;
    }
  }
}

// Sessa's solve takes models up to 256 wide on a GPU: the race goes on without it, and says so.
TEST_F(GpuLimits, ALayerThatIsTooWideIsLeftOutOfTheRace) {
  Arena arena(*cuda_);
  Tape tape(*cuda_, arena);
  RaceConfig config;
  config.tokens = 64;
  config.source = 4;
  config.directions = 2;
  LayerRace race(config, 448, 7, tape, DType::f32);
  race.enter_initial({"mamba2", "sessa"});
  while (race.advance()) {
  }
  const RaceView view = race.view();
  EXPECT_THAT(view.left_out, ::testing::ElementsAre("sessa"));
  ASSERT_EQ(view.entries.size(), 1u);
  EXPECT_EQ(view.entries.front().tail.kind, "mamba2");
  EXPECT_EQ(view.contestants, 1);
  EXPECT_EQ(race.share_done(), 1.0);
}

/// Writes where there is no memory, which takes the GPU from this process for good; then says what is left.
[[noreturn]] void lose_the_gpu() {
  const std::unique_ptr<Backend> cuda = make_cuda_backend(0, nullptr);
  TrainingRun run(small_recipe(), *cuda);
  run.go_to(10);
  const std::string checksum = run.trainer().checksum();
  try {
    cuda->fill(Tensor(reinterpret_cast<void*>(std::uintptr_t{4096}), {1024}, DType::f32), 1.0);
    run.train_step();
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    const std::optional<Snapshot> kept = run.kept_snapshot();
    const std::unique_ptr<Backend> cpu = make_cpu_backend(1);
    const bool is_usable = kept && TrainingRun(*kept, *cpu).trainer().checksum() == kept->checksum;
    std::fprintf(stderr, "%s\n",
                 is_usable && kept->checksum == checksum ? "the tenth step is kept" : "nothing is left");
    std::_Exit(static_cast<int>(error.code()));
  }
  std::_Exit(0);
}

TEST(GpuLossDeathTest, EndsWithCodeFourAndTheLastStateIsKept) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // a process of its own, whose GPU may be lost
  EXPECT_EXIT(lose_the_gpu(), ::testing::ExitedWithCode(4), "the GPU failed or was lost.*\n.*the tenth step is kept");
}

}  // namespace
}  // namespace afterglow
