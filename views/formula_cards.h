// "What is this number?": name, formula, the same with the present numbers, and where it is defined.
#pragma once
#include <span>
#include <string>
#include <string_view>

#include "views/frame.h"

namespace afterglow {

struct FormulaCard {
  std::string_view id;  ///< of the quantity, the figure or the panel
  std::string_view name;
  std::string_view formula;
  std::string_view meaning;
  std::string_view source;  ///< paper and equation
  /// The formula with the numbers of now; nullptr or an empty text where there are none.
  std::string (*numbers)(const Observation&, const Selection&);
};

std::span<const FormulaCard> formula_cards();
/// nullptr when there is no such card.
const FormulaCard* find_card(std::string_view id);

/// Opens the card when the pointer has rested on `area` for 0.4 s.
void card_target(Frame& frame, std::string_view id, const Rect& area);

}  // namespace afterglow
