// The name (run_numbers.h) of the number at a place of a plot, which the menu offers to follow over training. Without a
// place it is the plot's main number.
#pragma once
#include <optional>
#include <string>

#include "core/figure/canvas.h"
#include "core/figure/figure.h"
#include "views/figures/selection.h"

namespace afterglow {

using FollowedNumber = std::string(const Observation& observation, const Selection& selection, const Figure& figure,
                                   const std::optional<Point>& at);

/// A cell of a grid, or a path; without a place the brightest cell.
FollowedNumber followed_patch;
/// The accuracy lost without a bar's part; without a place that of the most needed part.
FollowedNumber followed_ablation;
/// A cell; without a place the first value after the last token that was read.
FollowedNumber followed_readout;
/// A cell or bar; without a place the model's own answer.
FollowedNumber followed_lens;
FollowedNumber followed_transplant;
/// The modulus of the chosen mode, or of the strongest one.
FollowedNumber followed_mode;

}  // namespace afterglow
