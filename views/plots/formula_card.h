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
  /// Labels of axes and colour bars, and names of series, that it explains in any figure.
  std::array<std::string_view, 6> axes = {};
  std::string_view unit = {};  ///< of the quantity; empty: a plain number
};

/// Every card, family by family.
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
