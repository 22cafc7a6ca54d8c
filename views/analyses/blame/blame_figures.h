// Batch influence: the change of the end of a training when one batch is left out, over the step of that batch.
#pragma once
#include <cstdint>
#include <string>

#include "core/engine/analyses/blame/blame_view.h"
#include "views/figures/plot_functions.h"

namespace afterglow {

SubtitleOfPlot blame_subtitle;
/// The change without each batch, and the loss over the same steps. Empty before the first measurement.
FiguresOfPlot blame_figures;

/// The step of the dot "batch 118"; -1 for every other name.
std::int64_t batch_of_point(const std::string& id);
/// "step 118: without its batch the loss at step 220 is 0.41 instead of 0.38"; empty for a batch without a result.
std::string batch_text(const BlameView& view, std::int64_t step);

}  // namespace afterglow
