// Colours by meaning: tokens by their role, lines of one colour told apart.
#include "views/figures/semantic_colours.h"

#include <gtest/gtest.h>

namespace afterglow {
namespace {

TEST(TokenInk, TellsWhatIsBoundFromWhatIsAskedAndFromNoise) {
  const Ink quiet = Role::faint;
  for (const TokenRole role : {TokenRole::blank, TokenRole::start, TokenRole::separator, TokenRole::filler})
    EXPECT_EQ(token_ink(role), quiet);
  const Ink key = token_ink(TokenRole::key), value = token_ink(TokenRole::value), query = token_ink(TokenRole::query),
            action = token_ink(TokenRole::action);
  for (const Ink& ink : {key, value, query, action}) EXPECT_NE(ink, quiet);
  EXPECT_NE(key, value);
  EXPECT_NE(key, query);
  EXPECT_NE(value, query);
  EXPECT_NE(action, value);
  EXPECT_NE(action, query);
  EXPECT_EQ(token_ink(TokenRole::arrow), query);
  EXPECT_EQ(token_ink(TokenRole::equals), query);
  EXPECT_NE(token_ink(TokenRole::text), quiet) << "letters are the whole sequence";
}

TEST(LayerInk, TellsMixersFromTheFeedForwardBesideThemAndRacersFromEachOther) {
  EXPECT_NE(layer_ink("gka"), layer_ink("swiglu"));
  EXPECT_NE(layer_ink("sessa"), layer_ink("gated_deltanet"));
  EXPECT_EQ(layer_ink("swiglu"), Ink(Role::faint)) << "it keeps nothing of the sequence";
}

TEST(LinesOfColour, AreCountedColourByColour) {
  LinesOfColour lines;
  EXPECT_EQ(lines.add(2), 0u);
  EXPECT_EQ(lines.add(Role::dim), 0u);
  EXPECT_EQ(lines.add(2), 1u);
  EXPECT_EQ(lines.add(2), 2u);
  EXPECT_EQ(lines.add(Role::dim), 1u);
}

}  // namespace
}  // namespace afterglow
