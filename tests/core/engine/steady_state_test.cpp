// A training step allocates nothing once it has found its shape, and its memory stays where it is.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "core/engine/trainer.h"
#include "tests/core/engine/small_recipe.h"

namespace {
std::atomic<long> allocations{0};
void* counted(std::size_t size) {
  ++allocations;
  if (void* memory = std::malloc(size > 0 ? size : 1)) return memory;
  throw std::bad_alloc();
}
void* counted_aligned(std::size_t size, std::size_t alignment) {
  ++allocations;
  if (void* memory = std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment)) return memory;
  throw std::bad_alloc();
}
}  // namespace

// Every allocation of this test program is counted.
void* operator new(std::size_t size) { return counted(size); }
void* operator new[](std::size_t size) { return counted(size); }
void* operator new(std::size_t size, std::align_val_t alignment) {
  return counted_aligned(size, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

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
      const long before = allocations;
      trainer.step();
      EXPECT_EQ(allocations - before, 0) << mode;
    }
    EXPECT_EQ(trainer.arena_bytes(), arena);
  }
}

}  // namespace
}  // namespace afterglow
