// A kernel's memory: one buffer for each use and thread, which goes when its thread does.
#include "core/backend/scratch.h"

#include <gtest/gtest.h>

#include <cstring>
#include <thread>

#include "tests/support/counted_allocations.h"

namespace afterglow {
namespace {

struct First;
struct Second;

TEST(Scratch, StaysUntilMoreIsAskedFor) {
  auto* few = thread_scratch<float, First>(10);
  std::memset(few, 1, 10 * sizeof(float));
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(few) % 64, 0u);
  EXPECT_EQ((thread_scratch<float, First>(4)), few);
  EXPECT_EQ((thread_scratch<float, First>(10)), few);
  EXPECT_NE((thread_scratch<float, Second>(10)), few) << "another use";
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(thread_scratch<float, First>(1000)) % 64, 0u);
}

TEST(Scratch, EachThreadHasItsOwn) {
  auto* mine = thread_scratch<double, First>(8);
  double* theirs = nullptr;
  std::thread([&] {
    thread_scratch<double, Second>(8);
    theirs = thread_scratch<double, First>(8);
    theirs[7] = 3;
  }).join();
  EXPECT_NE(theirs, mine);
}

TEST(Scratch, GoesWithItsThread) {
  constexpr std::int64_t bytes = 1 << 20;
  start_counting_memory();
  for (int i = 0; i < 8; ++i) {
    std::thread([] {
      for (std::int64_t count = bytes / 4; count <= bytes; count *= 2) thread_scratch<std::byte, First>(count)[0] = {};
      thread_scratch<std::byte, Second>(bytes)[0] = {};
    }).join();
  }
  EXPECT_GE(max_memory_since_start(), 2 * bytes);
  EXPECT_LT(max_memory_since_start(), 4 * bytes);
}

}  // namespace
}  // namespace afterglow
