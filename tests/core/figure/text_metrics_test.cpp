// Widths within three per cent of the font, and text that survives broken bytes.
#include <gtest/gtest.h>

#include "core/figure/canvas.h"

namespace afterglow {
namespace {

TEST(TextWidth, IsThatOfInter) {
  // Measured with Inter 4.0 Regular at size 1000, without kerning.
  EXPECT_NEAR(text_width_of("accuracy · smoothed 0.9, raw behind", 1000, FontFace::regular), 17527, 0.03 * 17527);
  EXPECT_NEAR(text_width_of("influence |∂y/∂x|", 1000, FontFace::regular), 7959, 0.03 * 7959);
  EXPECT_NEAR(text_width_of("AVATAR To Ty 1e\u22123", 1000, FontFace::regular), 9609, 0.03 * 9609);
  EXPECT_GT(text_width_of("Influence tail", 12, FontFace::semibold),
            text_width_of("Influence tail", 12, FontFace::regular));
  EXPECT_DOUBLE_EQ(text_width_of("0123", 10, FontFace::mono), 24);
  EXPECT_EQ(text_width_of("", 12, FontFace::regular), 0);
}

TEST(Characters, AreTakenOneByOne) {
  std::string_view text = "aλ∂😀";
  EXPECT_EQ(take_character(text), U'a');
  EXPECT_EQ(take_character(text), U'λ');
  EXPECT_EQ(take_character(text), U'∂');
  EXPECT_EQ(take_character(text), U'😀');
  EXPECT_TRUE(text.empty());
}

TEST(Printable, ReplacesWhatCannotBeShown) {
  EXPECT_EQ(printable("λ ≤ 1"), "λ ≤ 1");
  EXPECT_EQ(printable("a\xff"
                      "b\x01"
                      "c"),
            "a\uFFFD"
            "b\uFFFD"
            "c");
  EXPECT_EQ(printable("\xc3"), "\uFFFD");                      // cut within a character
  EXPECT_EQ(printable("\xed\xa0\x80"), "\uFFFD\uFFFD\uFFFD");  // a surrogate
  EXPECT_EQ(printable("\xc0\xaf"), "\uFFFD\uFFFD");            // overlong
}

TEST(Printable, GivesBackItsOwnResult) {
  std::string bytes;
  for (int i = 0; i < 4000; ++i) bytes += static_cast<char>(i * 2654435761u >> 13);
  EXPECT_EQ(printable(printable(bytes)), printable(bytes));
}

}  // namespace
}  // namespace afterglow
