// Figure of the power filter: gain |λ|^K and the energy of the query before and after it.
#pragma once
#include <string>
#include <vector>

#include "core/figure/figure.h"
#include "views/figures/selection.h"
#include "views/figures/training/curve_store.h"

namespace afterglow {

std::string power_filter_subtitle(const Observation& observation, const Selection& selection);
/// The gains as curves with the modes on them, and as a table: a row for each mode, a column for each power of Echo's
/// table D.1 and the displayed one.
std::vector<Figure> power_filter_figures(const Observation& observation, const Selection& selection,
                                         CurveStore& curves);

}  // namespace afterglow
