// Fills lines from left to right.
#include "core/figure/math/text_flow.h"

#include <algorithm>

#include "core/figure/math/math_text.h"

namespace afterglow {
namespace {

constexpr double line_height = 1.5;    ///< in text sizes
constexpr double formula_size = 1.25;  ///< of one on its own line
constexpr double room_of_formula = 0.6;

double width_of(const Canvas& canvas, const FlowToken& token, double size) {
  return token.is_math ? math_width(canvas, token.text, size, token.face)
                       : canvas.text_width(token.text, size, token.face);
}

TextFlow flow_formula(const FlowToken& token, double width, double size, const Canvas& canvas) {
  const double large = size * formula_size, room = room_of_formula * size;
  const MathText set = set_math(token.text, large, token.face, canvas);
  return {{{0, {std::max(0.0, (width - set.width) / 2), room + set.ascent}, set.width}},
          large,
          set.ascent + set.descent + 2 * room};
}

}  // namespace

void add_words(std::string_view text, FontFace face, bool follows_space, std::vector<FlowToken>& tokens) {
  while (!text.empty()) {
    std::size_t end = std::min(text.find(' '), text.size());
    if (text.substr(end).starts_with(" %")) end = std::min(text.find(' ', end + 1), text.size());  // as one word
    if (end > 0) tokens.push_back({std::string(text.substr(0, end)), face, false, follows_space});
    follows_space = end < text.size();
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

void add_text(std::string_view text, FontFace face, std::vector<FlowToken>& tokens) {
  bool follows_space = false;
  for (;;) {
    const std::size_t begin = text.find('$');
    const std::size_t end = begin == std::string_view::npos ? begin : text.find('$', begin + 1);
    if (end == std::string_view::npos) return add_words(text, face, follows_space, tokens);
    const std::string_view words = text.substr(0, begin);
    add_words(words, face, follows_space, tokens);
    follows_space = words.empty() ? follows_space : words.ends_with(' ');
    tokens.push_back({std::string(text.substr(begin + 1, end - begin - 1)), face, true, follows_space, true});
    follows_space = false;
    text.remove_prefix(end + 1);
  }
}

TextFlow flow_text(std::span<const FlowToken> tokens, double width, double size, const Canvas& canvas) {
  if (tokens.size() == 1 && tokens.front().is_math && !tokens.front().is_inline)
    return flow_formula(tokens.front(), width, size, canvas);
  const double space = canvas.text_width(" ", size, FontFace::regular), row = line_height * size;
  TextFlow flow{{}, size, row};
  double x = 0, y = 0;
  for (std::size_t i = 0; i < tokens.size();) {
    std::size_t end = i;
    double together = 0;
    do {
      together += width_of(canvas, tokens[end++], size);
    } while (end < tokens.size() && !tokens[end].follows_space);
    const double gap = x > 0 && tokens[i].follows_space ? space : 0;
    const bool begins_line = x > 0 && x + gap + together > width;
    x = begins_line ? 0 : x + gap;
    if (begins_line) y += row;
    for (; i < end; ++i) {
      const double own = width_of(canvas, tokens[i], size);
      flow.tokens.push_back({i, {x, y + row / 2 + 0.355 * size}, own});
      x += own;
    }
  }
  flow.height = y + row;
  return flow;
}

void draw_token(Canvas& canvas, const FlowToken& token, Point place, double size, Color color) {
  const TextStyle style{size, token.face, color, Anchor::start, 0};
  token.is_math ? draw_math(canvas, place, token.text, style) : canvas.text(place, token.text, style);
}

}  // namespace afterglow
