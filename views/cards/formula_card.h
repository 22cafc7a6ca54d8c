// "What is this number?": name, formula, the same with the present numbers, and where it is defined.
#pragma once
#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/figure/figure.h"
#include "views/figures/selection.h"

namespace afterglow {

struct FormulaCard {
  std::string_view id;  ///< of the quantity, the figure or the plot
  std::string_view name;
  std::string_view formula;
  std::string_view meaning;
  std::string_view source;  ///< paper and equation
  /// The formula with the numbers of now; nullptr or an empty text where there are none.
  std::string (*numbers)(const Observation&, const Selection&);
  std::array<std::string_view, 6> axes = {};  ///< labels of axes and colour bars that it explains, in any figure
  std::string_view unit = {};                 ///< of the quantity; empty: a plain number
};

/// Every card, family by family.
const std::vector<FormulaCard>& formula_cards();
/// nullptr when there is no such card.
const FormulaCard* find_card(std::string_view id);

/// The card of what an axis (or a colour bar) of a figure shows: by the axis' label, else by the figure's id; nullptr
/// when there is none.
const FormulaCard* card_of_axis(const Figure& figure, std::string_view label);

/// The formula for LaTeX: "A_w = L⁻¹ M L⁻ᵀ" is "A_{w} = L^{-1} M L^{-\top}".
std::string latex_of(std::string_view formula);

}  // namespace afterglow
