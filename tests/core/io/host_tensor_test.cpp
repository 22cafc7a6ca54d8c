// Stored element types: half floats against their definition, conversions, and sizes that overflow.
#include "core/io/host_tensor.h"

#include <gmock/gmock.h>

#include <bit>
#include <cmath>
#include <cstring>

#include "core/tensor/bfloat.h"
#include "tests/core/io/temporary_folder.h"
#include "tests/support/tensors.h"

namespace afterglow {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

HostTensor from_words(StoredType type, const std::vector<std::uint16_t>& words) {
  HostTensor tensor{"h", type, {static_cast<std::int64_t>(words.size())}, std::vector<std::byte>(2 * words.size())};
  std::memcpy(tensor.bytes.data(), words.data(), tensor.bytes.size());
  return tensor;
}

/// The value of a binary16 number by its definition, (-1)^s 2^(e-25) (1024 + f), without any bit tricks.
double half_by_definition(int word) {
  const int exponent = word / 1024 % 32, fraction = word % 1024;
  const double sign = word >= 32768 ? -1 : 1;
  if (exponent == 31) return fraction == 0 ? sign * HUGE_VAL : NAN;
  if (exponent == 0) return sign * std::ldexp(fraction, -24);
  return sign * std::ldexp(1024 + fraction, exponent - 25);
}

TEST(HostTensor, EveryHalfFloatIsExact) {
  std::vector<std::uint16_t> words(65536);
  for (int i = 0; i < 65536; ++i) words[i] = static_cast<std::uint16_t>(i);
  const std::vector<double> values = to_doubles(from_words(StoredType::f16, words));
  for (int i = 0; i < 65536; ++i) {
    const double expected = half_by_definition(i);
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(values[i])) << i;
    } else {
      ASSERT_EQ(std::bit_cast<std::uint64_t>(values[i]), std::bit_cast<std::uint64_t>(expected)) << i;
    }
  }
}

TEST(HostTensor, Bfloat16IsTheUpperHalfOfAFloat) {
  EXPECT_THAT(to_floats(from_words(StoredType::bf16, {0x3f80, 0xc020, 0x7f80, 0x0001})),
              ElementsAre(1.0f, -2.5f, HUGE_VALF, 0x1p-133f));
}

TEST(HostTensor, ConvertsEveryType) {
  EXPECT_THAT(to_doubles(tensor_of("", {2}, std::vector<float>{0.5f, -3})), ElementsAre(0.5, -3));
  EXPECT_THAT(to_floats(tensor_of("", {1}, std::vector<double>{0.1})), ElementsAre(0.1f));
  EXPECT_EQ(to_bfloat(1.0f), 0x3f80);
  EXPECT_EQ(to_bfloat(-2.5f), 0xc020);
  EXPECT_EQ(to_bfloat(0x1.01p0f), 0x3f80);  // between two: the even one
  EXPECT_EQ(to_bfloat(0x1.03p0f), 0x3f82);
  EXPECT_EQ(to_bfloat(0x1.010002p0f), 0x3f81);
  EXPECT_THAT(to_doubles(tensor_of("", {1}, std::vector<std::int32_t>{-5})), ElementsAre(-5));
  EXPECT_THAT(to_integers(tensor_of("", {1}, std::vector<std::int64_t>{(std::int64_t{1} << 53) + 1})),
              ElementsAre((std::int64_t{1} << 53) + 1));
  HostTensor flags = tensor_of("", {3}, std::vector<std::uint8_t>{0, 1, 7});
  EXPECT_THAT(to_integers(flags), ElementsAre(0, 1, 7));
  flags.type = StoredType::boolean;
  EXPECT_THAT(to_integers(flags), ElementsAre(0, 1, 1));
}

TEST(HostTensor, FloatsAreNotWholeNumbers) {
  const HostTensor tensor = tensor_of("loss", {1}, std::vector<float>{1});
  EXPECT_THAT(message_of(ExitCode::bad_input, [&] { to_integers(tensor); }), HasSubstr("'loss' holds F32"));
}

TEST(HostTensor, NamesOfTypesReadBack) {
  for (const StoredType type : {StoredType::boolean, StoredType::u8, StoredType::f16, StoredType::bf16, StoredType::i32,
                                StoredType::f32, StoredType::f64, StoredType::i64}) {
    EXPECT_EQ(stored_type_of(name_of(type)), type);
  }
  EXPECT_EQ(stored_type_of("f32"), std::nullopt);
}

TEST(HostTensor, SizesAreCheckedForOverflow) {
  using Shape = std::vector<std::int64_t>;
  EXPECT_EQ(bytes_of(StoredType::f64, Shape{}), 8);
  EXPECT_EQ(bytes_of(StoredType::f16, Shape{3, 0, 5}), 0);
  EXPECT_EQ(bytes_of(StoredType::u8, Shape{INT64_MAX}), INT64_MAX);
  EXPECT_EQ(bytes_of(StoredType::f16, Shape{INT64_MAX}), std::nullopt);
  EXPECT_EQ(bytes_of(StoredType::f32, Shape{std::int64_t{1} << 31, std::int64_t{1} << 31}), std::nullopt);
  EXPECT_EQ(bytes_of(StoredType::f32, Shape{-1, -1}), std::nullopt);
}

}  // namespace
}  // namespace afterglow
