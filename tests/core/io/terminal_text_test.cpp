// Foreign text cannot steer a terminal.
#include "core/io/terminal_text.h"

#include <gtest/gtest.h>

namespace afterglow {
namespace {

TEST(TerminalText, WritesOutWhatATerminalWouldObey) {
  EXPECT_EQ(terminal_text("plain · ß 漢 😀"), "plain · ß 漢 😀");
  EXPECT_EQ(terminal_text("a\x1b[31mred\n\tb\x7f"), "a\\x1b[31mred\\x0a\\x09b\\x7f");
  EXPECT_EQ(terminal_text("\xc2\x9b"
                          "2J"),
            "\\xc2\\x9b2J")
      << "the same control sequence, as one character";
  EXPECT_EQ(terminal_text(std::string_view("a\0b", 3)), "a\\x00b");
}

TEST(TerminalText, WritesOutBytesThatAreNoCharacters) {
  EXPECT_EQ(terminal_text("caf\xe9"), "caf\\xe9");
  EXPECT_EQ(terminal_text("\xc3"), "\\xc3") << "cut short";
  EXPECT_EQ(terminal_text("\xc0\xaf"), "\\xc0\\xaf") << "longer than needed";
  EXPECT_EQ(terminal_text("\xed\xa0\x80"), "\\xed\\xa0\\x80") << "half of a pair";
}

TEST(TerminalText, KnowsUtf8) {
  EXPECT_TRUE(is_utf8(""));
  EXPECT_TRUE(is_utf8("ä\n\x1b"));
  EXPECT_FALSE(is_utf8("caf\xe9"));
  EXPECT_FALSE(is_utf8("\xf5\x80\x80\x80"));
}

}  // namespace
}  // namespace afterglow
