// The families of plots with their formula cards, one file each; plot_kinds.cpp collects the rows, formula_card.cpp the
// cards.
#pragma once
#include <array>

#include "views/plots/formula_card.h"
#include "views/plots/plot_kinds.h"

namespace afterglow {

struct PlotFamily {
  std::span<const PlotKind> plots;
  std::span<const FormulaCard> cards;
};

PlotFamily training_plots();
PlotFamily spectrum_plots();
PlotFamily sequence_plots();
PlotFamily causes_plots();
PlotFamily solver_plots();
PlotFamily influence_plots();
PlotFamily theory_plots();
PlotFamily spectral_memory_plots();
PlotFamily setting_plots();

/// In the order in which plots are offered; the first card that explains a label is shown.
inline constexpr std::array plot_families{training_plots, spectrum_plots,        sequence_plots,
                                          causes_plots,   solver_plots,          influence_plots,
                                          theory_plots,   spectral_memory_plots, setting_plots};

}  // namespace afterglow
