// Bisection over frozen parts: a bar for each part of the model, as long as the training needs without its learning.
#pragma once
#include <string>

#include "core/engine/analyses/bisect/bisect_view.h"
#include "views/figures/plot_functions.h"

namespace afterglow {

SubtitleOfPlot bisect_subtitle;
/// One plot. Empty before the first run.
FiguresOfPlot bisect_figures;

/// "held-out accuracy > 0.5 holds from step 212; while 1 ska is frozen, not by step 1,000."
std::string bisect_text(const BisectView& view);

}  // namespace afterglow
