// Eigenvalue forces: the plane of a Koopman operator's eigenvalues with two arrows at each: where the loss pulls it and
// where the optimiser moves it.
#pragma once
#include <string>

#include "core/engine/analyses/forces/forces_view.h"
#include "views/figures/plot_functions.h"

namespace afterglow {

SubtitleOfPlot forces_subtitle;
/// The selected head, or all heads of its layer.
FiguresOfPlot forces_figures;

/// The forces on the selected head, or on the first one; nullptr without any.
const HeadForces* selected_forces(const Observation& observation, const Selection& selection);
/// "mode 3 at 0.91 + 0.2i: the loss pulls it by 1.2e-4 outwards, the step moves it .."; empty for an unknown mode.
std::string force_text(const HeadForces& forces, int number);

}  // namespace afterglow
