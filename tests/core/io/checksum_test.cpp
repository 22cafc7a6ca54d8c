// XXH64 against values of the reference implementation, whole and in pieces.
#include "core/io/checksum.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace afterglow {
namespace {

std::uint64_t of_text(std::string_view text) { return checksum(std::as_bytes(std::span(text.data(), text.size()))); }

std::vector<std::byte> pattern(std::size_t length) {
  std::vector<std::byte> bytes(length);
  for (std::size_t i = 0; i < length; ++i) bytes[i] = static_cast<std::byte>((i * 131 + 7) % 256);
  return bytes;
}

TEST(Checksum, MatchesTheReferenceOnTexts) {
  EXPECT_EQ(of_text(""), 0xef46db3751d8e999u);
  EXPECT_EQ(of_text("a"), 0xd24ec4f1a98c6e5bu);
  EXPECT_EQ(of_text("abc"), 0x44bc2cf5ad770999u);
  EXPECT_EQ(of_text("Afterglow shows what sequence layers remember."), 0x99503c886f0874c4u);
}

TEST(Checksum, MatchesTheReferenceAtAwkwardLengthsAndSeeds) {
  struct Known {
    std::size_t length;
    std::uint64_t plain, seeded;
  };
  const Known known[] = {
      {1, 0xa96c7f0ce858bbb7u, 0x84e535b36672440du},   {3, 0xbed43740ee6332bbu, 0x00b77b485431ce5du},
      {4, 0xfa212ae44b3bb23du, 0x60492c4bfcb70cacu},   {7, 0x2744460dd675d2c0u, 0xcdf83b729545b016u},
      {8, 0x994b676b71ce94ddu, 0xf424edebfea8d23fu},   {31, 0x6711d55e306b5d8fu, 0xfa1259cc8b20eb58u},
      {32, 0x07f7b8e3bc5d6e25u, 0x920f3e10a5db09c6u},  {33, 0x09f85eeb4e1cbe9fu, 0x3d805e8712cb4890u},
      {37, 0x1d8c3a2215085739u, 0xc507e783de1f6370u},  {63, 0xb7c9968c066cb6a5u, 0x184bc5097530bb9au},
      {64, 0x50d4159a0411632eu, 0x94667e10d68b3991u},  {65, 0xd277176bff863efcu, 0xe181e4d736915eb4u},
      {101, 0x8742d6c2018318fdu, 0xc62535787e3ae83au},
  };
  for (const Known& value : known) {
    Checksum seeded(2654435761u);
    seeded.update(pattern(value.length));
    EXPECT_EQ(checksum(pattern(value.length)), value.plain) << value.length;
    EXPECT_EQ(seeded.digest(), value.seeded) << value.length;
  }
}

TEST(Checksum, PiecesDoNotMatter) {
  std::mt19937 random(3);
  const std::vector<std::byte> bytes = pattern(1000);
  for (int round = 0; round < 200; ++round) {
    Checksum sum;
    for (std::size_t begin = 0; begin < bytes.size();) {
      const std::size_t count = std::min<std::size_t>(random() % 70, bytes.size() - begin);
      sum.update(std::span(bytes).subspan(begin, count));
      begin += count;
    }
    ASSERT_EQ(sum.digest(), checksum(bytes));
    ASSERT_EQ(sum.digest(), checksum(bytes)) << "asking changes nothing";
  }
}

TEST(Checksum, OneBitChangesIt) {
  std::vector<std::byte> bytes = pattern(64);
  const std::uint64_t before = checksum(bytes);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] ^= std::byte{1};
    EXPECT_NE(checksum(bytes), before) << i;
    bytes[i] ^= std::byte{1};
  }
}

TEST(Checksum, IsShownWithAllItsDigits) {
  EXPECT_EQ(hex16(0), "0000000000000000");
  EXPECT_EQ(hex16(0x00b77b485431ce5du), "00b77b485431ce5d");
}

}  // namespace
}  // namespace afterglow
