// Formula cards on the page: opened by the resting pointer, pinned by F1.
#pragma once
#include <string_view>

#include "views/frame/frame.h"
#include "views/plots/formula_card.h"

namespace afterglow {

/// The card that F1 pinned, with a button that copies its formula; Esc or F1 closes it.
void draw_pinned_card(Frame& frame);

/// Opens the card when the pointer has rested on `area` for 0.4 s; in presentation mode only F1 opens it.
void card_target(Frame& frame, std::string_view id, const Rect& area);
/// F1 opens this card next to `area`, where it does not cover the values.
void ask_for_card(Frame& frame, std::string_view id, const Rect& area);

}  // namespace afterglow
