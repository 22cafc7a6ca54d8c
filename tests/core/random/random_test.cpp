// Random: determinism, independence of places, and the distributions, all with fixed seeds.
#include "core/random/random.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <vector>

namespace afterglow {
namespace {

// Pearson's statistic against equal expected counts.
double chi_square(const std::vector<int>& counts) {
  const double expected = std::accumulate(counts.begin(), counts.end(), 0.0) / static_cast<double>(counts.size());
  double sum = 0;
  for (const int count : counts) sum += (count - expected) * (count - expected) / expected;
  return sum;
}

// Chi-square has mean k and variance 2k; five standard deviations to either side (too even is wrong as well).
void expect_uniform(const std::vector<int>& counts) {
  const double degrees = static_cast<double>(counts.size()) - 1;
  const double statistic = chi_square(counts);
  EXPECT_LT(statistic, degrees + 5 * std::sqrt(2 * degrees));
  EXPECT_GT(statistic, degrees - 5 * std::sqrt(2 * degrees));
}

TEST(Random, ReadsTheBlocksInOrder) {
  Random random(7, 3, 9);
  for (std::uint32_t position = 0; position < 3; ++position) {
    const PhiloxBlock block = philox_at(7, 3, 9, position);
    EXPECT_EQ(random.next_u32(), block.x0);
    EXPECT_EQ(random.next_u32(), block.x1);
    EXPECT_EQ(random.next_u64(), block.x2 | (static_cast<std::uint64_t>(block.x3) << 32));
  }
}

TEST(Random, SkippedWordsAreThoseThatWouldHaveBeenDrawn) {
  for (int before = 0; before < 6; ++before) {
    for (int skipped = 0; skipped < 11; ++skipped) {
      Random drawn(7, 3, 9), jumped(7, 3, 9);
      for (int i = 0; i < before; ++i) EXPECT_EQ(drawn.next_u32(), jumped.next_u32());
      for (int i = 0; i < skipped; ++i) drawn.next_u32();
      jumped.skip(static_cast<std::uint64_t>(skipped));
      for (int i = 0; i < 5; ++i) EXPECT_EQ(drawn.next_u32(), jumped.next_u32()) << before << ", " << skipped;
    }
  }
}

TEST(Random, SamePlaceSameNumbersOtherPlaceOthers) {
  const auto draw = [](std::uint64_t seed, std::uint32_t stream, std::uint64_t index) {
    Random random(seed, stream, index);
    std::vector<double> values;
    for (int i = 0; i < 37; ++i) values.push_back(i % 2 ? random.normal() : random.uniform());
    return values;
  };
  EXPECT_EQ(draw(1, 2, 3), draw(1, 2, 3));
  EXPECT_NE(draw(1, 2, 3), draw(2, 2, 3));
  EXPECT_NE(draw(1, 2, 3), draw(1, 3, 3));
  EXPECT_NE(draw(1, 2, 3), draw(1, 2, 4));
}

TEST(Random, UniformIsUniform) {
  Random random(11);
  std::vector<int> counts(101);
  double sum = 0;
  const int draws = 101000;
  for (int i = 0; i < draws; ++i) {
    const double u = random.uniform();
    ASSERT_GE(u, 0.0);
    ASSERT_LT(u, 1.0);
    sum += u;
    ++counts[static_cast<std::size_t>(u * 101)];
  }
  EXPECT_NEAR(sum / draws, 0.5, 5 / std::sqrt(12.0 * draws));
  expect_uniform(counts);
}

TEST(Random, IntegersAreUniformAtAwkwardSizes) {
  for (const std::uint64_t n : {2ull, 3ull, 37ull, 63ull, 65ull, 101ull}) {
    Random random(5, 0, n);
    std::vector<int> counts(n);
    for (std::uint64_t i = 0; i < 400 * n; ++i) {
      const std::uint64_t value = random.uniform_int(n);
      ASSERT_LT(value, n);
      ++counts[value];
    }
    expect_uniform(counts);
  }
}

// With n = 3/4 of the range a plain modulo would hit the first third twice as often.
TEST(Random, LargeBoundsAreUnbiased) {
  for (const std::uint64_t n : {3ull << 30, 3ull << 62}) {
    Random random(6, 1, n);
    std::vector<int> thirds(3);
    for (int i = 0; i < 30000; ++i) {
      const std::uint64_t value = random.uniform_int(n);
      ASSERT_LT(value, n);
      ++thirds[static_cast<std::size_t>(std::min<std::uint64_t>(value / (n / 3), 2))];
    }
    EXPECT_LT(chi_square(thirds), 2 + 5 * 2.0);
  }
}

TEST(Random, OneChoiceNeedsNoNumber) {
  Random random(1), other(1);
  EXPECT_EQ(random.uniform_int(1), 0u);
  EXPECT_EQ(random.uniform_int(0), 0u);
  EXPECT_EQ(random.next_u32(), other.next_u32());
}

TEST(Random, NormalHasTheMomentsOfANormal) {
  Random random(13);
  const int draws = 100000;
  double moments[5] = {};
  int tail = 0;
  for (int i = 0; i < draws; ++i) {
    const double x = random.normal();
    ASSERT_TRUE(std::isfinite(x));
    for (int k = 1; k <= 4; ++k) moments[k] += std::pow(x, k) / draws;
    tail += std::abs(x) > 1.959963984540054;
  }
  const double error = 5 / std::sqrt(static_cast<double>(draws));
  EXPECT_NEAR(moments[1], 0, error);
  EXPECT_NEAR(moments[2], 1, error * std::sqrt(2.0));
  EXPECT_NEAR(moments[3], 0, error * std::sqrt(15.0));
  EXPECT_NEAR(moments[4], 3, error * std::sqrt(96.0));
  EXPECT_NEAR(tail / static_cast<double>(draws), 0.05, error * 0.22);
}

}  // namespace
}  // namespace afterglow
