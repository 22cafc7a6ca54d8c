// Figures of the stepper: state after a token or its change by the token, and the answer distribution.
#pragma once
#include <string>
#include <vector>

#include "core/figure/figure.h"
#include "views/figures/selection.h"
#include "views/figures/training/curve_store.h"

namespace afterglow {

std::string stepper_subtitle(const Observation& observation, const Selection& selection);
std::vector<Figure> stepper_figures(const Observation& observation, const Selection& selection, CurveStore& curves);

/// The computation of one head for one token, a picture for each step, in order.
std::string inside_subtitle(const Observation& observation, const Selection& selection);
std::vector<Figure> inside_figures(const Observation& observation, const Selection& selection, CurveStore& curves);

/// Eigenvalues of one head's operator after each token: the plane at the chosen token with trails, and every modulus
/// over the tokens.
std::string token_spectrum_subtitle(const Observation& observation, const Selection& selection);
std::vector<Figure> token_spectrum_figures(const Observation& observation, const Selection& selection,
                                           CurveStore& curves);

}  // namespace afterglow
