// The accuracy grid: for each task a map of the accuracy over the number of pairs and the length.
#pragma once
#include <string>

#include "core/engine/analyses/accuracy/accuracy_view.h"
#include "views/figures/plot_functions.h"

namespace afterglow {

SubtitleOfPlot accuracy_grid_subtitle;
/// One map for each task, the trained ones first. Empty before the first cells.
FiguresOfPlot accuracy_grid_figures;

/// The grid of this figure; nullptr for every other figure.
const AccuracyGrid* grid_of(const AccuracyView& view, const Figure& figure);
/// The cell at a place of its map; nullptr outside.
const AccuracyCell* cell_at(const AccuracyGrid& grid, double x, double y);
/// "niah with 4 pairs in 1,024 tokens: 63 of 64 answers right"
std::string cell_text(const AccuracyGrid& grid, const AccuracyCell& cell);

}  // namespace afterglow
