// Twin runs: the distance between two trainings that differ in one thing, over the steps.
#pragma once
#include <string>

#include "core/engine/analyses/microscope/microscope_view.h"
#include "views/figures/plot_functions.h"

namespace afterglow {

SubtitleOfPlot microscope_subtitle;
/// One plot: a line for each part of the model and one for all. Empty before the first run.
FiguresOfPlot microscope_figures;

/// The result in words: the distance, its growth, and its first place.
std::string microscope_text(const MicroscopeView& view);

}  // namespace afterglow
