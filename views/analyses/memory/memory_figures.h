// Figures of the training memory, from its history to its tokens (Spectral Memory, sections 3.2 to 3.5).
#pragma once
#include <string>
#include <vector>

#include "core/figure/figure.h"
#include "views/figures/selection.h"
#include "views/figures/training/curve_store.h"

namespace afterglow {

std::string memory_inspector_subtitle(const Observation& observation, const Selection& selection);
/// The effect of each mode, the history, its temporal modes and components, the tokens made from them, and the pooling
/// that writes the next row.
std::vector<Figure> memory_inspector_figures(const Observation& observation, const Selection& selection,
                                             CurveStore& curves);

}  // namespace afterglow
