// Numbers as text: they read back to the same bits, and nothing but a number is one.
#include "core/io/number_text.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>

namespace afterglow {
namespace {

TEST(NumberText, WritesTheFewestDigits) {
  EXPECT_EQ(shortest(0.1), "0.1");
  EXPECT_EQ(shortest(0.1f), "0.1");
  EXPECT_EQ(shortest(3.0), "3");
  EXPECT_EQ(shortest(-0.0), "-0");
  EXPECT_EQ(shortest(1e-20), "1e-20");
  EXPECT_EQ(shortest(1.0 / 3), "0.3333333333333333");
  EXPECT_EQ(shortest(std::numeric_limits<double>::quiet_NaN()), "nan");
  EXPECT_EQ(shortest(-std::numeric_limits<double>::quiet_NaN()), "nan");
  EXPECT_EQ(shortest(HUGE_VAL), "inf");
  EXPECT_EQ(shortest(-HUGE_VAL), "-inf");
}

TEST(NumberText, EveryNumberReadsBackToTheSameBits) {
  std::mt19937_64 random(7);
  for (int i = 0; i < 20000; ++i) {
    const double value = std::bit_cast<double>(random());
    const auto back = parse_number(shortest(value));
    ASSERT_TRUE(back.has_value()) << shortest(value);
    if (std::isnan(value)) {
      ASSERT_TRUE(std::isnan(*back));
    } else {
      ASSERT_EQ(std::bit_cast<std::uint64_t>(*back), std::bit_cast<std::uint64_t>(value)) << shortest(value);
    }
  }
}

TEST(NumberText, AcceptsCommonSpellings) {
  EXPECT_EQ(parse_number(" 12 "), 12);
  EXPECT_EQ(parse_number("+1.5e3"), 1500);
  EXPECT_EQ(parse_number(".5"), 0.5);
  EXPECT_EQ(parse_number("-Inf"), -HUGE_VAL);
  EXPECT_TRUE(std::isnan(parse_number("NaN").value()));
}

TEST(NumberText, NothingElseIsANumber) {
  for (const char* text : {"", " ", "x", "1x", "1 2", "1,5", "0x10", "1e", "--1", "+-1", "+", "1e999", "٣", "1_000"}) {
    EXPECT_EQ(parse_number(text), std::nullopt) << text;
  }
}

TEST(NumberText, SizesUseTheLargestUnitThatFits) {
  EXPECT_EQ(bytes_text(0), "0 B");
  EXPECT_EQ(bytes_text(999), "999 B");
  EXPECT_EQ(bytes_text(1000), "1.0 KB");
  EXPECT_EQ(bytes_text(12'640), "12.6 KB");
  EXPECT_EQ(bytes_text(412'300'000), "412 MB");
  EXPECT_EQ(bytes_text(-1'048'576), "-1.0 MB");
  EXPECT_EQ(bytes_text(5'400'000'000'000'000), "5400 TB");
}

TEST(NumberText, CsvFieldsAreQuotedOnlyWhereTheyMustBe) {
  EXPECT_EQ(csv_field("plain λ"), "plain λ");
  EXPECT_EQ(csv_field(" "), " ");
  EXPECT_EQ(csv_field(""), "");
  EXPECT_EQ(csv_field("a,b"), "\"a,b\"");
  for (const char* text : {"a;b", "a\tb"}) EXPECT_EQ(csv_field(text), "\"" + std::string(text) + "\"");
  EXPECT_EQ(csv_field("a\nb"), "\"a\nb\"");
  EXPECT_EQ(csv_field("say \"a\""), "\"say \"\"a\"\"\"");
}

TEST(NumberText, AWholeNumberIsReadExactlyOrNotAtAll) {
  EXPECT_EQ(parse_whole_number("0"), 0);
  EXPECT_EQ(parse_whole_number("-17"), -17);
  EXPECT_EQ(parse_whole_number("9007199254740993"), 9007199254740993) << "no double";
  for (const char* text : {"", "-", "1.0", "1e3", " 1", "1 ", "+1", "0x10", "9223372036854775808"})
    EXPECT_EQ(parse_whole_number(text), std::nullopt) << text;
}

TEST(TokenLabels, WhereThereIsNoneTheNumberStands) {
  const std::vector<std::string> labels{"k0", "", "v1"};
  EXPECT_EQ(label_among(labels, 0), "k0");
  EXPECT_EQ(label_among(labels, 1), "#1");
  EXPECT_EQ(label_among(labels, 3), "#3") << "a vocabulary larger than the task's";
  EXPECT_EQ(label_among({}, 29088), "#29088");
}

}  // namespace
}  // namespace afterglow
