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
  std::string_view unit = {};  ///< of the quantity; empty: a plain number
};

std::span<const FormulaCard> formula_cards();
/// nullptr when there is no such card.
const FormulaCard* find_card(std::string_view id);

/// The card of what an axis (or a colour bar) of a figure shows: by the axis' label, else by the figure's id; nullptr
/// when there is none.
const FormulaCard* card_of_axis(const Figure& figure, std::string_view label);

/// The formula for LaTeX: "A_w = L⁻¹ M L⁻ᵀ" is "A_{w} = L^{-1} M L^{-\\top}".
std::string latex_of(std::string_view formula);

/// The card that F1 pinned, with a button that copies its formula; Esc or F1 lets it go.
void draw_pinned_card(Frame& frame);

/// Opens the card when the pointer has rested on `area` for 0.4 s.
void card_target(Frame& frame, std::string_view id, const Rect& area);

}  // namespace afterglow
