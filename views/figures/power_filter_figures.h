// Figure of the power filter: gain |λ|^K and the energy of the query before and after it.
#pragma once
#include <string>
#include <vector>

#include "core/figure/figure.h"
#include "views/figures/curve_store.h"
#include "views/figures/selection.h"

namespace afterglow {

std::string power_filter_subtitle(const Observation& observation, const Selection& selection);
std::vector<Figure> power_filter_figures(const Observation& observation, const Selection& selection,
                                         CurveStore& curves);

}  // namespace afterglow
