// Words and formulas broken into lines: the text of a lesson, in the window and on paper.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/figure/canvas.h"

namespace afterglow {

/// A unit without line breaks: a word or a formula (math_text.h). Units without a space between them share a line.
struct FlowToken {
  std::string text{};
  FontFace face = FontFace::regular;
  bool is_math = false;
  bool follows_space = false;
  bool is_inline = false;  ///< a formula in the line, also where it is the only unit
};

struct PlacedToken {
  std::size_t token = 0;
  Point place{};  ///< start of its baseline, from the upper left corner of the flow
  double width = 0;
};

struct TextFlow {
  std::vector<PlacedToken> tokens{};
  double size = 0;  ///< of the text; a formula on its own line is centred and a little larger
  double height = 0;
};

/// Adds the words of a text. `follows_space`: whether a space precedes the first one.
void add_words(std::string_view text, FontFace face, bool follows_space, std::vector<FlowToken>& tokens);
/// The same for words with formulas between `$`; a `$` without a closing one is plain text.
void add_text(std::string_view text, FontFace face, std::vector<FlowToken>& tokens);
TextFlow flow_text(std::span<const FlowToken> tokens, double width, double size, const Canvas& canvas);
void draw_token(Canvas& canvas, const FlowToken& token, Point place, double size, Color color);

}  // namespace afterglow
