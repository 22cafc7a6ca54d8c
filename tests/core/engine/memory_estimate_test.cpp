// What a training will hold is known before it begins.

#include <gmock/gmock.h>

#include "core/backend/cpu/cpu_backend.h"
#include "core/engine/training/objective.h"
#include "core/engine/training/trainer.h"
#include "core/io/error.h"
#include "tests/core/engine/small_recipe.h"

namespace afterglow {
namespace {

/// A machine with so much memory left.
class SmallMachine final : public CpuBackend {
 public:
  explicit SmallMachine(std::size_t free) : CpuBackend(1), free_(free) {}
  void require_free(const std::function<std::size_t()>& bytes, std::size_t unwritten) const override {
    if (bytes() + unwritten > free_) throw Error(ExitCode::out_of_memory, "too small");
  }

 private:
  std::size_t free_;
};

Recipe recipe_of(const Preset& preset) {
  nlohmann::json json = nlohmann::json::parse(preset.text);
  apply_assignment(json, "batch=2");
  return parse_recipe(json, preset.name);
}

TEST(MemoryEstimate, IsWhatTheFirstStepsHoldToTheByte) {
  for (const Preset& preset : presets()) {
    const Recipe recipe = recipe_of(preset);
    if (recipe.task.value("length", 0) > 128) continue;  // seconds each
    CpuBackend backend(1);
    const std::size_t expected = training_memory_need(recipe, backend).peak;
    EXPECT_EQ(backend.held_bytes(), 0u) << "it reserves nothing";
    std::size_t most = 0;
    Trainer trainer(recipe, backend);
    for (int i = 0; i < 4; ++i) {
      trainer.step();
      most = std::max(most, backend.held_bytes());
    }
    EXPECT_EQ(most, expected) << preset.name;
  }
}

TEST(MemoryEstimate, BlocksThatAreComputedTwiceNeedLessForTheSameBits) {
  for (const Preset& preset : presets()) {
    Recipe recipe = recipe_of(preset);
    if (recipe.task.value("length", 0) > 128) continue;  // seconds each
    ParameterStore declared;
    const bool forecasts = make_objective(recipe, declared)->forecast() != nullptr;
    std::string checksums[2];
    for (const int blocks : {0, 1024}) {
      recipe.recompute = blocks;
      CpuBackend backend(1);
      if (forecasts && blocks > 0) {
        EXPECT_THROW(Trainer(recipe, backend), Error) << preset.name;
        continue;
      }
      Trainer trainer(recipe, backend);
      for (int i = 0; i < 3; ++i) EXPECT_TRUE(trainer.step().finite) << preset.name;
      checksums[blocks > 0 ? 1 : 0] = trainer.checksum();
    }
    if (!forecasts) {
      EXPECT_EQ(checksums[0], checksums[1]) << preset.name;
    }
  }
}

TEST(MemoryEstimate, FurtherBlocksThatAreComputedTwiceSaveMore) {
  nlohmann::json json = nlohmann::json::parse(find_preset("ssm-ska").text);
  json["training"]["batch"] = 4;
  std::size_t blocks = 0, first = 0, last = 0;
  for (const auto& block : json["model"]["blocks"]) blocks += block.value("repeat", std::size_t{1});
  ASSERT_GE(blocks, 3u);
  for (std::size_t again = 0; again <= blocks; ++again) {
    json["recompute"] = again;
    const Recipe recipe = parse_recipe(json, "again");
    CpuBackend backend(1);
    const std::size_t peak = training_memory_need(recipe, backend).peak;
    if (again > 0) {
      EXPECT_LE(peak, last) << again << " (the arena grows by quarters)";
    }
    first = std::max(first, peak);
    last = peak;
    std::size_t held = 0;
    Trainer trainer(recipe, backend);
    for (int i = 0; i < 4; ++i) {
      trainer.step();
      held = std::max(held, backend.held_bytes());
    }
    EXPECT_EQ(held, peak) << again;
  }
  EXPECT_LT(last, first * 3 / 4);
  json["recompute"] = 1025;
  EXPECT_THROW(parse_recipe(json, "again"), Error);
}

TEST(MemoryEstimate, ATrainingThatDoesNotFitIsRefusedBeforeItsFirstStepReservesAnything) {
  nlohmann::json json = nlohmann::json::parse(find_preset("tiny").text);
  apply_assignment(json, "batch=4096");
  const Recipe recipe = parse_recipe(json, "large");
  SmallMachine narrow(std::size_t{1} << 30);
  EXPECT_GT(training_memory_need(recipe, narrow).peak, std::size_t{1} << 30);
  Trainer trainer(recipe, narrow);  // to be analysed
  const std::size_t before = narrow.held_bytes();
  EXPECT_EQ(before, training_memory_need(recipe, narrow).reserved);
  EXPECT_THROW(trainer.step(), Error);
  EXPECT_EQ(narrow.held_bytes(), before);
  EXPECT_THROW(trainer.step(), Error) << "asked once more, it is refused once more";
  trainer.set("batch", 32);
  EXPECT_NO_THROW(trainer.step()) << "a smaller batch fits";
  trainer.set("batch", 4096);
  EXPECT_THROW(trainer.step(), Error) << "and a larger one is counted again";
}

TEST(MemoryEstimate, MoreWeightsThan32BitsCountAreCountedAndNamedBeforeTheyAreReserved) {
  nlohmann::json json = small_recipe_json();
  json["model"] = nlohmann::json::parse(R"({"d_model": 16384, "vocab": 128, "blocks":
      [{"mlp": {"kind": "swiglu", "d_ff": 65536}, "repeat": 2}]})");
  json["task"] = {{"kind", "stories"}, {"length", 16}};
  json["training"]["batch"] = 2;
  const Recipe recipe = parse_recipe(json, "huge");
  const std::size_t weights = std::size_t{2} * 3 * 16384 * 65536 * sizeof(float);
  ASSERT_GT(weights / sizeof(float), std::size_t{1} << 32);
  SmallMachine narrow(std::size_t{8} << 30);
  const TrainingMemoryNeed need = training_memory_need(recipe, narrow);
  EXPECT_GT(need.reserved, weights);
  EXPECT_LT(need.reserved, weights + weights / 100);
  EXPECT_GT(need.training, 3 * weights);
  EXPECT_GT(need.peak, need.reserved + need.training);
  try {
    Trainer trainer(recipe, narrow);
    ADD_FAILURE() << "it does not fit";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::out_of_memory);
    EXPECT_THAT(error.what(), testing::HasSubstr("weights take 25.8 GB"));
    EXPECT_THAT(error.what(), testing::HasSubstr("float32"));
  }
  EXPECT_EQ(narrow.held_bytes(), 0u);
}

TEST(MemoryEstimate, AWideVocabularyNeedsRoomForAChunkOfItsLogitsOnce) {
  nlohmann::json json = small_recipe_json();
  json["model"] = nlohmann::json::parse(R"({"d_model": 4, "vocab": 8192, "tie_embedding": true, "blocks": []})");
  json["task"] = {{"kind", "stories"}, {"length", 128}};  // every token is answered
  json["training"]["batch"] = 20;
  const Recipe recipe = parse_recipe(json, "wide");
  CpuBackend backend(2);
  const std::size_t expected = training_memory_need(recipe, backend).peak, logits = 20 * 128 * 8192 * sizeof(float);
  EXPECT_GT(expected, logits);
  EXPECT_LT(expected, 2 * logits) << "as a whole they would be there three times";
  std::size_t most = 0;
  Trainer trainer(recipe, backend);
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(trainer.step().finite);
    most = std::max(most, backend.held_bytes());
  }
  EXPECT_EQ(most, expected);
}

}  // namespace
}  // namespace afterglow
