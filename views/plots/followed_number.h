// The numbers of plots that can be followed over training.
#pragma once
#include "views/figures/plot_functions.h"

namespace afterglow {

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
