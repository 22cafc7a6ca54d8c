// The families of plots, one file each; plot_kinds.cpp collects the rows. The texts of their formula cards are in
// assets/cards, which says how to add one; formula_card.cpp joins them with the numbers.
#pragma once
#include <array>

#include "core/engine/recipe/embedded_text.h"
#include "views/plots/formula_card.h"
#include "views/plots/plot_kinds.h"

namespace afterglow {

/// Writes the present numbers of a card.
struct CardNumbers {
  std::string_view card;  ///< id of the card
  NumbersText numbers;
};

struct PlotFamily {
  std::span<const PlotKind> plots;
  std::span<const CardNumbers> numbers;  ///< of the cards that have numbers
};

PlotFamily training_plots();
PlotFamily spectrum_plots();
PlotFamily sequence_plots();
PlotFamily causes_plots();
PlotFamily solver_plots();
PlotFamily influence_plots();
PlotFamily theory_plots();
PlotFamily spectral_memory_plots();

/// In the order in which the plots are listed.
inline constexpr std::array plot_families{training_plots, spectrum_plots,  sequence_plots, causes_plots,
                                          solver_plots,   influence_plots, theory_plots,   spectral_memory_plots};

/// The files of assets/cards.
std::span<const EmbeddedText> card_texts();

}  // namespace afterglow
