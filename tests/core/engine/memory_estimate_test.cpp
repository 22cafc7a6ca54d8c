// What a training will hold is known before it begins.
#include "core/engine/training/memory_estimate.h"

#include <gmock/gmock.h>

#include "core/backend/cpu/cpu_backend.h"
#include "core/engine/training/trainer.h"
#include "core/io/error.h"
#include "tests/core/engine/small_recipe.h"

namespace afterglow {
namespace {

/// A machine with so much memory left.
class SmallMachine final : public CpuBackend {
 public:
  explicit SmallMachine(std::size_t free) : CpuBackend(1), free_(free) {}
  void require_free(const std::function<std::size_t()>& bytes) const override {
    if (bytes() > free_) throw Error(ExitCode::out_of_memory, "too small");
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
    if (preset.name == "echo-50m" || recipe.task.value("length", 0) > 128) continue;  // seconds each
    CpuBackend backend(1);
    const std::size_t expected = training_bytes(recipe, backend);
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

TEST(MemoryEstimate, ATrainingThatDoesNotFitIsRefusedBeforeAnythingIsReserved) {
  nlohmann::json json = nlohmann::json::parse(find_preset("tiny").text);
  apply_assignment(json, "batch=4096");
  const Recipe recipe = parse_recipe(json, "large");
  SmallMachine narrow(std::size_t{1} << 30);
  EXPECT_THROW(Trainer(recipe, narrow), Error);
  EXPECT_EQ(narrow.held_bytes(), 0u);
  EXPECT_GT(training_bytes(recipe, narrow), std::size_t{1} << 30);
  EXPECT_NO_THROW(Trainer(small_recipe(), narrow)) << "a small one runs";
}

}  // namespace
}  // namespace afterglow
