// Draws one token.
#include "views/token_chip.h"

#include <algorithm>

#include "views/figures/semantic_colours.h"
#include "views/widgets.h"

namespace afterglow {

namespace {
constexpr double min_letters = 7;  ///< layout units; smaller ones cannot be read
}

void draw_token_chip(const Frame& frame, Canvas& canvas, const TokenView& token, const Rect& chip, ChipState state) {
  const Theme& theme = *frame.look.theme;
  const Ink ink = token_ink(token.role);
  const bool is_quiet = ink.role == Role::faint;
  const double radius = std::min(frame.px(4), chip.width / 3);
  Color fill = is_quiet ? theme.raised : mixed(theme.raised, ink_color(theme, ink), 0.35);
  if (state.is_hovered) fill = mixed(fill, theme.text, 0.12);
  canvas.fill_rect(chip, radius, fill);
  const double needed = canvas.text_width(token.label, frame.px(tiny_size), FontFace::mono);
  const double size = tiny_size * std::min(1.0, (chip.width - frame.px(1)) / std::max(needed, 1.0));
  if (size >= min_letters) {
    canvas.text({chip.x + chip.width / 2, chip.y + chip.height / 2 + 0.355 * frame.px(size)}, token.label,
                {frame.px(size), FontFace::mono, is_quiet ? theme.dim : theme.text, Anchor::middle, 0});
  }
  if (token.target >= 0)
    canvas.fill_rect({chip.x, chip.bottom() + frame.px(2), chip.width, frame.px(2)}, frame.px(1), theme.accent);
  if (state.is_selected) {
    const double out = frame.px(1);
    canvas.stroke_rect({chip.x - out, chip.y - out, chip.width + 2 * out, chip.height + 2 * out}, radius + out,
                       {theme.text, frame.px(2), Dash::solid});
  }
}

}  // namespace afterglow
