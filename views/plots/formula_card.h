// "What is this number?": name, formula, the same with the present numbers, and where it is defined.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "core/figure/figure.h"
#include "views/figures/selection.h"

namespace afterglow {

/// A formula with the numbers of now; an empty text where there are none.
using NumbersText = std::string (*)(const Observation&, const Selection&);

/// assets/cards/README.md describes the texts.
struct FormulaCard {
  std::string id, name, formula, meaning, source;
  std::string unit;               ///< of the quantity; empty: a plain number
  std::vector<std::string> axes;  ///< labels and names of series that it explains in any figure
  NumbersText numbers = nullptr;  ///< nullptr where there are none
};

/// Every card, file by file; the first one that explains a label is shown.
const std::vector<FormulaCard>& formula_cards();
/// nullptr when there is no such card.
const FormulaCard* find_card(std::string_view id);

/// The card of a figure: the one with its id, else with the longest part of it ("race_1_ska" is explained by "race");
/// nullptr when there is none. So with the others.
const FormulaCard* card_of_figure(std::string_view id);
/// Of what an axis or colour bar shows, or a series by its stem: the one that lists this name, else the figure's.
const FormulaCard* card_of_axis(const Figure& figure, std::string_view label);
/// Of a dot: by the first word of its id ("mode 3"), else the figure's.
const FormulaCard* card_of_point(const Figure& figure, std::string_view id);
/// Of a slider, by the last part of its setting's key: "layers.0.ska.ridge", "override gamma".
const FormulaCard* card_of_setting(std::string_view key);

/// The formula for LaTeX: "A_w = L⁻¹ M L⁻ᵀ" is "A_{w} = L^{-1} M L^{-\top}".
std::string latex_of(std::string_view formula);

}  // namespace afterglow
