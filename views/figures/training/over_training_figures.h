// One number of the model over the steps that the run keeps, above the loss of the same steps.
#pragma once
#include <string>
#include <vector>

#include "core/engine/observation/over_training_view.h"
#include "core/figure/figure.h"
#include "views/figures/selection.h"
#include "views/figures/training/curve_store.h"

namespace afterglow {

std::string over_training_subtitle(const Observation& observation, const Selection& selection);
/// The loss of the run and the number under it, over the same steps. Empty before it was asked for.
std::vector<Figure> over_training_figures(const Observation& observation, const Selection& selection,
                                          CurveStore& curves);

/// "half_life: 31.7 at step 200, 2.1 at step 0, 41 at the most (step 180)".
std::string over_training_text(const OverTrainingView& view);

}  // namespace afterglow
