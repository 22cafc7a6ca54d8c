// Figures of forecasts: input, truth and prediction of each channel, errors of all windows, and the attention of the
// forecasting model's memory tokens.
#pragma once
#include <string>
#include <vector>

#include "core/engine/analyses/forecast/forecast_view.h"
#include "core/engine/observation/memory_view.h"
#include "core/figure/figure.h"
#include "views/figures/selection.h"
#include "views/figures/training/curve_store.h"

namespace afterglow {

std::string forecast_subtitle(const Observation& observation, const Selection& selection);
std::vector<Figure> forecast_figures(const Observation& observation, const Selection& selection, CurveStore& curves);

std::string memory_tokens_subtitle(const Observation& observation, const Selection& selection);
std::vector<Figure> memory_tokens_figures(const Observation& observation, const Selection& selection,
                                          CurveStore& curves);

}  // namespace afterglow
