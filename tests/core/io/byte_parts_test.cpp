// Parts of bytes lie within them, whatever offsets a file names.
#include "core/io/byte_parts.h"

#include <gtest/gtest.h>

#include <array>

#include "core/io/error.h"

namespace afterglow {
namespace {

constexpr std::array<std::byte, 4> four{std::byte{1}, std::byte{2}, std::byte{3}, std::byte{0xff}};

TEST(ByteParts, AreTakenWithinTheirEnds) {
  EXPECT_EQ(part_of(four, 1, 3, "file").size(), 3u);
  EXPECT_EQ(part_of(four, 4, 0, "file").size(), 0u);
  EXPECT_EQ(part_of(four, 0, 4, "file").data(), four.data());
}

TEST(ByteParts, BeyondTheEndAreRefusedWithNumbers) {
  for (const auto& [offset, count] :
       {std::pair<std::uint64_t, std::uint64_t>{0, 5}, {5, 0}, {4, 1}, {1, UINT64_MAX}, {UINT64_MAX, 1}}) {
    try {
      part_of(four, offset, count, "a.npy");
      ADD_FAILURE() << offset << ", " << count;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::bad_input);
      EXPECT_EQ(std::string(error.what()).find("a.npy: " + std::to_string(count) + " bytes are named"), 0u)
          << error.what();
    }
  }
}

TEST(ByteParts, HoldNumbersLeastByteFirst) {
  EXPECT_EQ(little_endian(four), 0xff030201u);
  EXPECT_EQ(little_endian({}), 0u);
  EXPECT_EQ(little_endian(Bytes(four).first(2)), 0x0201u);
}

}  // namespace
}  // namespace afterglow
