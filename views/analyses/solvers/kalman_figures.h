// Figures of the exact Kalman filter and the layers that approximate it (Gated KalmaNet, section 6).
#pragma once
#include <string>
#include <vector>

#include "core/figure/figure.h"
#include "views/figures/selection.h"
#include "views/figures/training/curve_store.h"

namespace afterglow {

struct HeadFilters;

/// The filters of the selected head, or of the nearest one with filters; nullptr without any.
const HeadFilters* selected_filters(const Observation& observation, const Selection& selection);

std::string kalman_subtitle(const Observation& observation, const Selection& selection);
/// The share of a pair that each filter writes, the rest of it at the end, the angle between gain and key, Σ_t, and the
/// drift of the recursion in the selected arithmetic.
std::vector<Figure> kalman_figures(const Observation& observation, const Selection& selection, CurveStore& curves);

}  // namespace afterglow
