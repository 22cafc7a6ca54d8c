// "What is this number?": name, formula, the formula with the present numbers, and its source.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "core/figure/figure.h"
#include "views/figures/selection.h"

namespace afterglow {

/// A formula with the present numbers; empty without one.
using NumbersText = std::string (*)(const Observation&, const Selection&);

/// assets/cards/README.md describes the texts.
struct FormulaCard {
  std::string id, name, formula, meaning, source;
  std::string unit;               ///< of the quantity; empty: a plain number
  std::vector<std::string> axes;  ///< labels and names of series that it explains in any figure
  NumbersText numbers = nullptr;  ///< nullptr if the card has no numbers
};

/// Every card, file by file; the first one that explains a label is shown.
const std::vector<FormulaCard>& formula_cards();
/// nullptr when there is no such card.
const FormulaCard* find_card(std::string_view id);

/// The card of a figure: the one with its id, else with the longest part of it ("race_1_ska" is explained by "race");
/// nullptr without one. The same for the functions below.
const FormulaCard* card_of_figure(std::string_view id);
/// The card of an axis, colour bar or series: the one that lists its name or stem, else the figure's.
const FormulaCard* card_of_axis(const Figure& figure, std::string_view label);
/// The card of a dot: by the first word of its id ("mode 3"), else the figure's.
const FormulaCard* card_of_point(const Figure& figure, std::string_view id);
/// The card of a slider, by the last part of its setting's key: "layers.0.ska.ridge", "override gamma".
const FormulaCard* card_of_setting(std::string_view key);

/// The formula for LaTeX: "A_w = L⁻¹ M L⁻ᵀ" is "A_{w} = L^{-1} M L^{-\top}".
std::string latex_of(std::string_view formula);

}  // namespace afterglow
