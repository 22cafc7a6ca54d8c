// The form of the functions that make a plot.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "core/engine/observation/observation.h"
#include "core/figure/canvas.h"
#include "core/figure/figure.h"
#include "views/figures/selection.h"
#include "views/figures/training/curve_store.h"

namespace afterglow {

/// What a plot shows, in a few words; without figures the reason.
using SubtitleOfPlot = std::string(const Observation& observation, const Selection& selection);
/// The figures of a plot at this moment; growing curves are kept in `curves`.
using FiguresOfPlot = std::vector<Figure>(const Observation& observation, const Selection& selection,
                                          CurveStore& curves);
/// The name (run_numbers.h) of the number at a place of a figure, which the menu offers to follow over training; empty:
/// no number there. Without a place the plot's main number.
using FollowedNumber = std::string(const Observation& observation, const Selection& selection, const Figure& figure,
                                   const std::optional<Point>& at);

}  // namespace afterglow
