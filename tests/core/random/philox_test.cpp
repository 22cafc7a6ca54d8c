// Philox against the known answers that its authors publish with Random123 (kat_vectors), and as an index.
#include "core/random/philox.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace afterglow {
namespace {

constexpr bool same(PhiloxBlock a, PhiloxBlock b) {
  return a.x0 == b.x0 && a.x1 == b.x1 && a.x2 == b.x2 && a.x3 == b.x3;
}

static_assert(same(philox4x32({0, 0, 0, 0}, {0, 0}), {0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u}),
              "usable in a constant expression");

TEST(Philox, GivesTheKnownAnswers) {
  constexpr std::uint32_t ff = 0xffffffffu;
  EXPECT_TRUE(same(philox4x32({0, 0, 0, 0}, {0, 0}), {0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u}));
  EXPECT_TRUE(same(philox4x32({ff, ff, ff, ff}, {ff, ff}), {0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu}));
  EXPECT_TRUE(same(philox4x32({0x243f6a88u, 0x85a308d3u, 0x13198a2eu, 0x03707344u}, {0xa4093822u, 0x299f31d0u}),
                   {0xd16cfe09u, 0x94fdccebu, 0x5001e420u, 0x24126ea1u}));
}

TEST(Philox, EveryPartOfThePlaceMatters) {
  const auto word = [](std::uint64_t seed, std::uint32_t stream, std::uint64_t index, std::uint32_t position) {
    const PhiloxBlock block = philox_at(seed, stream, index, position);
    return std::to_string(block.x0) + "," + std::to_string(block.x1) + "," + std::to_string(block.x2);
  };
  const std::uint64_t high = 1ull << 32;
  const std::set<std::string> seen = {word(0, 0, 0, 0), word(1, 0, 0, 0),    word(high, 0, 0, 0), word(0, 1, 0, 0),
                                      word(0, 0, 1, 0), word(0, 0, high, 0), word(0, 0, 0, 1),    word(1, 1, 0, 0),
                                      word(0, 1, 1, 0), word(0, 0, 1, 1)};
  EXPECT_EQ(seen.size(), 10u);
}

TEST(Philox, UniformFloatStaysBelowOne) {
  EXPECT_EQ(philox_uniform(0u), 0.0f);
  EXPECT_EQ(philox_uniform(0x80000000u), 0.5f);
  EXPECT_LT(philox_uniform(0xffffffffu), 1.0f);
}

}  // namespace
}  // namespace afterglow
