// A training step allocates nothing once it has found its shape, and its memory stays where it is.
#include <gtest/gtest.h>

#include "core/engine/training/trainer.h"
#include "tests/core/engine/small_recipe.h"
#include "tests/support/counted_allocations.h"

namespace afterglow {
namespace {

TEST(SteadyState, AStepAllocatesNothingAfterTheThird) {
  for (const char* mode : {"prefix", "masked", "chunk", "recurrent"}) {
    nlohmann::json json = small_recipe_json();
    json["model"]["blocks"][1]["mixer"]["mode"] = mode;
    json["model"]["blocks"].push_back({{"mixer", {{"kind", "attention"}, {"n_heads", 2}}}});
    json["model"]["blocks"].push_back({{"mixer", {{"kind", "linear_attention"}, {"n_heads", 2}}}});
    // One thread: with several, a thread's own scratch grows when it first meets a kernel, whenever that is.
    const auto backend = make_cpu_backend(1);
    Trainer trainer(parse_recipe(json, "small"), *backend);
    for (int i = 0; i < 3; ++i) trainer.step();
    const std::size_t arena = trainer.arena_bytes();
    for (int i = 0; i < 5; ++i) {
      trainer.prepare_batch();  // drawing examples is the task's affair
      const std::int64_t before = allocations();
      trainer.begin_step();
      trainer.end_step();
      EXPECT_EQ(allocations() - before, 0) << mode;
    }
    EXPECT_EQ(trainer.arena_bytes(), arena);
  }
}

}  // namespace
}  // namespace afterglow
