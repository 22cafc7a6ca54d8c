// Figures of conditioning: kappa, smallest eigenvalue and sigma of every head, token by token.
#pragma once
#include <string>
#include <vector>

#include "core/figure/figure.h"
#include "views/figures/curve_store.h"
#include "views/figures/selection.h"

namespace afterglow {

std::string conditioning_subtitle(const Observation& observation, const Selection& selection);
/// What to do about the worst κ of the panel; empty while the precision in use can bear it.
std::string conditioning_advice(const Observation& observation, const Selection& selection);
std::vector<Figure> conditioning_figures(const Observation& observation, const Selection& selection,
                                         CurveStore& curves);

}  // namespace afterglow
