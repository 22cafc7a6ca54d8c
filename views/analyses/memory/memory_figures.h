// Figures of the training memory, from its history to its tokens (Spectral Memory, sections 3.2 to 3.5).
#pragma once
#include <string>
#include <vector>

#include "core/engine/analyses/forecast/forecast_view.h"
#include "core/engine/observation/memory_view.h"
#include "core/engine/observation/trajectory_view.h"
#include "core/figure/figure.h"
#include "views/figures/selection.h"
#include "views/figures/training/curve_store.h"

namespace afterglow {

std::string memory_inspector_subtitle(const Observation& observation, const Selection& selection);
/// The effect of each mode, the history, its temporal modes and components, the tokens made from them, and the pooling
/// that writes the next row.
std::vector<Figure> memory_inspector_figures(const Observation& observation, const Selection& selection,
                                             CurveStore& curves);

std::string forecast_subtitle(const Observation& observation, const Selection& selection);
std::vector<Figure> forecast_figures(const Observation& observation, const Selection& selection, CurveStore& curves);

std::string memory_tokens_subtitle(const Observation& observation, const Selection& selection);
std::vector<Figure> memory_tokens_figures(const Observation& observation, const Selection& selection,
                                          CurveStore& curves);

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
