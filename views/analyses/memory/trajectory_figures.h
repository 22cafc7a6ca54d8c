// Figures of the training memory: its path in the first Karhunen-Loeve modes, their spectrum, and the modes over the
// steps (Spectral Memory 3.3).
#pragma once
#include <string>
#include <vector>

#include "core/engine/observation/trajectory_view.h"
#include "core/figure/figure.h"
#include "views/figures/selection.h"
#include "views/figures/training/curve_store.h"

namespace afterglow {

/// The step of the dot "step 120"; -1 for every other name.
std::int64_t step_of_point(const std::string& id);
/// Training loss of a step of the current run; NaN without one.
double loss_at(const Observation& observation, std::int64_t step);

std::string trajectory_subtitle(const Observation& observation, const Selection& selection);
std::vector<Figure> trajectory_figures(const Observation& observation, const Selection& selection, CurveStore& curves);

std::string kl_spectrum_subtitle(const Observation& observation, const Selection& selection);
std::vector<Figure> kl_spectrum_figures(const Observation& observation, const Selection& selection, CurveStore& curves);

std::string temporal_modes_subtitle(const Observation& observation, const Selection& selection);
std::vector<Figure> temporal_modes_figures(const Observation& observation, const Selection& selection,
                                           CurveStore& curves);

}  // namespace afterglow
