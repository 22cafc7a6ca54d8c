// The form of the functions that make the figures of a plot.
#pragma once
#include <vector>

#include "core/engine/observation/observation.h"
#include "core/figure/figure.h"
#include "views/figures/selection.h"
#include "views/figures/training/curve_store.h"

namespace afterglow {

/// The figures of a plot at this moment; growing curves are kept in `curves`.
using FiguresOfPlot = std::vector<Figure>(const Observation& observation, const Selection& selection,
                                          CurveStore& curves);

}  // namespace afterglow
