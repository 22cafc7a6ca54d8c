// Memory: the paper's numbers, counted states, and the crossover by trying lengths.
#include "core/analysis/memory_cost.h"

#include <gtest/gtest.h>

#include <cmath>

namespace afterglow {
namespace {

TEST(MemoryCost, CountsTheStateOfSka) {
  for (const int r : {1, 16, 56}) {
    const int P = 64, G = r * r, M = r * r, C = P * r, previous = r, scale = 1;
    const MemoryCost cost = memory_cost(SkaMemory{.rank = 1.0 * r, .value_width = 64, .heads = 3, .layers = 2});
    EXPECT_EQ(cost.fixed, (G + M + C + previous + scale) * 3 * 2 * 4);
    EXPECT_EQ(cost.at(1e9), cost.fixed);
  }
}

TEST(MemoryCost, ThePapersNumbers) {
  const MemoryCost cache = memory_cost(AttentionMemory{.key_width = 64, .value_width = 64, .key_heads = 12});
  EXPECT_EQ(cache.at(131072), 384.0 * 1024 * 1024) << "section 6.2: 384 MB per layer in fp16 at d = 768";
  const SkaMemory one_head{.rank = 56, .value_width = 64, .heads = 1, .layers = 2};
  EXPECT_NEAR(memory_cost(one_head).fixed / 1024, 77, 0.5) << "its 77 KB forget the heads";
  SkaMemory model = one_head;
  model.heads = 12;
  EXPECT_NEAR(memory_cost(model).fixed / 1024, 929, 0.5);
}

TEST(MemoryCost, CrossoverIsWhereTheLongerContextTurns) {
  for (const double r : {8.0, 24.0, 56.0}) {
    const MemoryCost ska = memory_cost(SkaMemory{.rank = r, .value_width = 32});
    const MemoryCost cache = memory_cost(AttentionMemory{.key_width = r, .value_width = 32, .bytes_per_number = 4});
    const double T = crossover_tokens(ska, cache);
    EXPECT_NEAR(T, (2 * r * r + 32 * r + r + 1) / (r + 32), 1e-12) << "I.14";
    for (int tokens = 1; tokens < 400; ++tokens) EXPECT_EQ(ska.at(tokens) < cache.at(tokens), tokens > T) << tokens;
  }
}

TEST(MemoryCost, HalfPrecisionCachesCrossLater) {
  const MemoryCost ska = memory_cost(SkaMemory{.rank = 24, .value_width = 32});
  const AttentionMemory full{.key_width = 24, .value_width = 32, .bytes_per_number = 4};
  AttentionMemory half = full;
  half.bytes_per_number = 2;
  EXPECT_NEAR(crossover_tokens(ska, memory_cost(half)), 2 * crossover_tokens(ska, memory_cost(full)), 1e-9);
}

TEST(MemoryCost, AwkwardCrossovers) {
  EXPECT_EQ(crossover_tokens({1, 0}, {2, 0}), 0) << "less from the start";
  EXPECT_EQ(crossover_tokens({1, 0}, {2, 1}), 0);
  EXPECT_TRUE(std::isinf(crossover_tokens({2, 0}, {2, 0}))) << "never strictly less";
  EXPECT_TRUE(std::isinf(crossover_tokens({2, 1}, {1, 1})));
  EXPECT_TRUE(std::isinf(crossover_tokens({0, 2}, {5, 1}))) << "less at first, but not for good";
  EXPECT_TRUE(std::isnan(crossover_tokens({NAN, 0}, {0, 1})));
  EXPECT_EQ(memory_cost(AttentionMemory{}).at(1e6), 0);
  EXPECT_TRUE(
      std::isfinite(memory_cost(SkaMemory{.rank = 1e6, .value_width = 1e6, .heads = 1e4, .layers = 1e4}).fixed));
}

}  // namespace
}  // namespace afterglow
