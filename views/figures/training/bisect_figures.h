// Bisect over frozen blocks: a bar for each part of the model, as long as the training needs without its learning.
#pragma once
#include <string>
#include <vector>

#include "core/engine/observation/bisect_view.h"
#include "core/figure/figure.h"
#include "views/figures/selection.h"
#include "views/figures/training/curve_store.h"

namespace afterglow {

std::string bisect_subtitle(const Observation& observation, const Selection& selection);
/// One plot. Empty before it was asked for.
std::vector<Figure> bisect_figures(const Observation& observation, const Selection& selection, CurveStore& curves);

/// "accuracy > 0.5 first holds at step 212; without the learning of 1 ska not until step 1,000".
std::string bisect_text(const BisectView& view);

}  // namespace afterglow
