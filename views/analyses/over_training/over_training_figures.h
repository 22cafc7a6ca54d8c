// One number of the model over the kept steps of the run, below the loss of the same steps.
#pragma once
#include <string>

#include "core/engine/analyses/over_training/over_training_view.h"
#include "views/figures/plot_functions.h"

namespace afterglow {

SubtitleOfPlot over_training_subtitle;
/// The loss of the run and the number below it, over the same steps. Empty before the first measurement.
FiguresOfPlot over_training_figures;

/// "half life: 31.7 at step 200, 2.1 at step 0, largest 41 at step 180".
std::string over_training_text(const OverTrainingView& view);

}  // namespace afterglow
