// Figures of the training memory, from its history to its tokens (Spectral Memory, sections 3.2 to 3.5).
#pragma once
#include <string>

#include "core/engine/analyses/forecast/forecast_view.h"
#include "core/engine/observation/memory_view.h"
#include "core/engine/observation/trajectory_view.h"
#include "views/figures/plot_functions.h"

namespace afterglow {

SubtitleOfPlot memory_inspector_subtitle;
/// The effect of each mode, the history, its temporal modes and components, the tokens made from them, and the pooling
/// that writes the next row.
FiguresOfPlot memory_inspector_figures;

/// The step of the dot "step 120"; -1 for every other name.
std::int64_t step_of_point(const std::string& id);
/// Training loss of a step of the current run; NaN without one.
double loss_at(const Observation& observation, std::int64_t step);

SubtitleOfPlot trajectory_subtitle, kl_spectrum_subtitle, temporal_modes_subtitle, forecast_subtitle,
    memory_tokens_subtitle;
FiguresOfPlot trajectory_figures, kl_spectrum_figures, temporal_modes_figures, forecast_figures, memory_tokens_figures;

}  // namespace afterglow
