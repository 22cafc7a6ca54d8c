// A token as a small coloured chip with its text.
#pragma once
#include "views/frame.h"

namespace afterglow {

struct ChipState {
  bool is_selected = false, is_hovered = false;
};
/// Narrow chips get smaller letters, very narrow ones no letters but still their colour. A line under the chip marks a
/// token after which the model must answer.
void draw_token_chip(const Frame& frame, Canvas& canvas, const TokenView& token, const Rect& chip, ChipState state);

}  // namespace afterglow
