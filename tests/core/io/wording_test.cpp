// Suggestions for mistyped words, and foreign text in messages.
#include "core/io/wording.h"

#include <gtest/gtest.h>

#include <vector>

namespace afterglow {
namespace {

const std::vector<std::string> presets = {"tiny", "small", "long_range", "race"};

TEST(Wording, FindsTheNearestWord) {
  EXPECT_EQ(nearest("tiny", presets), "tiny");
  EXPECT_EQ(nearest("TINY", presets), "tiny");
  EXPECT_EQ(nearest("smal", presets), "small");
  EXPECT_EQ(nearest("smalll", presets), "small");
  EXPECT_EQ(nearest("samll", presets), "small") << "two swapped letters are one error";
  EXPECT_EQ(nearest("longrnge", presets), "long_range");
}

TEST(Wording, KeepsSilentWhenNothingIsNear) {
  EXPECT_EQ(nearest("elephant", presets), "");
  EXPECT_EQ(nearest("", presets), "");
  EXPECT_EQ(nearest("x", {}), "");
  EXPECT_EQ(nearest(std::string(1000000, 'a'), presets), "");
  EXPECT_EQ(did_you_mean("elephant", presets), "");
  EXPECT_EQ(did_you_mean("rase", presets), "; did you mean 'race'?");
  EXPECT_EQ(did_you_mean("rang", presets), "; did you mean 'long_range'?") << "a part of a name";
  const std::vector<std::string> few{"one", "two"};
  EXPECT_EQ(which_there_are("onne", few), "; did you mean 'one'?; there are one, two");
  EXPECT_EQ(which_there_are("x", few), "; there are one, two");
}

TEST(Wording, QuotesAreBoundedAndPrintable) {
  EXPECT_EQ(in_quotes("loss"), "'loss'");
  EXPECT_EQ(in_quotes("a\x1b[2J\n"), "'a?[2J?'");
  EXPECT_EQ(in_quotes(std::string(80, 'a')), "'" + std::string(80, 'a') + "'");
  EXPECT_EQ(in_quotes(std::string(81, 'a')), "'" + std::string(80, 'a') + "...'");
  EXPECT_EQ(in_quotes(std::string(79, 'a') + "λλ"), "'" + std::string(79, 'a') + "...'") << "no half letters";
}

}  // namespace
}  // namespace afterglow
