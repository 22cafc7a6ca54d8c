// Words and formulas broken into lines: the text of a lesson, in the window and on paper.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/figure/canvas.h"

namespace afterglow {

/// What is never broken: a word, or a formula (math_text.h). Those without a space between them share a line.
struct FlowToken {
  std::string text{};
  FontFace face = FontFace::regular;
  bool is_math = false;
  bool follows_space = false;
  bool is_inline = false;  ///< a formula that stands in the line, also where it is alone
};

struct PlacedToken {
  std::size_t token = 0;
  Point place{};  ///< start of its baseline, from the upper left corner of the flow
  double width = 0;
};

struct TextFlow {
  std::vector<PlacedToken> tokens{};
  double size = 0;  ///< of the text: a formula alone stands in the middle, a little larger
  double height = 0;
};

/// Adds the words of a text, the first one behind a space or not.
void add_words(std::string_view text, FontFace face, bool follows_space, std::vector<FlowToken>& tokens);
/// The same for words with formulas between `$`; a sign that has no partner stays a sign.
void add_text(std::string_view text, FontFace face, std::vector<FlowToken>& tokens);
TextFlow flow_text(std::span<const FlowToken> tokens, double width, double size, const Canvas& canvas);
void draw_token(Canvas& canvas, const FlowToken& token, Point place, double size, Color color);

}  // namespace afterglow
