// The families of formula cards, one file each; formula_card.cpp collects them.
#pragma once
#include "views/cards/formula_card.h"

namespace afterglow {

std::span<const FormulaCard> training_cards();
std::span<const FormulaCard> spectrum_cards();
std::span<const FormulaCard> sequence_cards();
std::span<const FormulaCard> solver_cards();
std::span<const FormulaCard> influence_cards();
std::span<const FormulaCard> theory_cards();
std::span<const FormulaCard> spectral_memory_cards();
std::span<const FormulaCard> setting_cards();

}  // namespace afterglow
