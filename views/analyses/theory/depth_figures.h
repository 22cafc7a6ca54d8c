// The gradient in the backward pass through the layers: measured norms and Echo's bounds over depth (appendix J).
#pragma once
#include <string>
#include <vector>

#include "core/figure/figure.h"
#include "views/figures/selection.h"
#include "views/figures/training/curve_store.h"

namespace afterglow {

std::string depth_subtitle(const Observation& observation, const Selection& selection);
/// |∂L/∂h| before every layer with the bounds of theorem J.9, from measured norms and in closed form, and the norms of
/// the branches with their closed forms: of Koopman MLPs (J.8), and of the path through the queries of SKA (J.4) and
/// softmax attention (J.2).
std::vector<Figure> depth_figures(const Observation& observation, const Selection& selection, CurveStore&);

}  // namespace afterglow
