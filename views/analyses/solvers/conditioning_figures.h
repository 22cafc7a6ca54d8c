// Figures of conditioning: kappa, smallest eigenvalue and sigma of every head, token by token.
#pragma once
#include <string>
#include <vector>

#include "core/figure/figure.h"
#include "views/figures/selection.h"
#include "views/figures/training/curve_store.h"

namespace afterglow {

std::string conditioning_subtitle(const Observation& observation, const Selection& selection);
/// Advice about the worst κ of the panel; empty while the precision in use is sufficient.
std::string conditioning_advice(const Observation& observation, const Selection& selection);
/// The shares of the first and the last direction of the chosen head's keys that remain after the ridge, and of all
/// together (Echo, proposition A.2); empty without a trace of an SKA layer.
std::string shrinkage_numbers(const Observation& observation, const Selection& selection);
/// tr G, |G|_F and λ_max of the chosen head after the chosen token (Echo, proposition E.1); empty as above.
std::string gram_size_numbers(const Observation& observation, const Selection& selection);
/// For a traced SKA layer also the shrinkage of each direction by the ridge (A.2) and the size of G (E.1).
std::vector<Figure> conditioning_figures(const Observation& observation, const Selection& selection,
                                         CurveStore& curves);

}  // namespace afterglow
