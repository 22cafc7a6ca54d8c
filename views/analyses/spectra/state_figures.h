// Recurrent states of layers without a Koopman operator: the factors of one token, and the growth of the state.
#pragma once
#include <string>
#include <vector>

#include "core/figure/figure.h"
#include "views/figures/selection.h"
#include "views/figures/training/curve_store.h"

namespace afterglow {

std::string state_spectrum_subtitle(const Observation& observation, const Selection& selection);
std::vector<Figure> state_spectrum_figures(const Observation& observation, const Selection& selection,
                                           CurveStore& curves);
std::string state_growth_subtitle(const Observation& observation, const Selection& selection);
std::vector<Figure> state_growth_figures(const Observation& observation, const Selection& selection,
                                         CurveStore& curves);

}  // namespace afterglow
