// Gradients of one sequence's loss at every depth of a model, and the norms of its branches' Jacobians.
#pragma once
#include "core/engine/analyses/theory/depth_view.h"
#include "core/engine/training/trainer.h"

namespace afterglow {

/// A forward and a backward pass, branch by branch, and `iterations` rounds of power iteration for each branch,
/// starting at the gradient that arrives there. Every round gives |J^T u| for a unit vector u, so a norm is never above
/// the true one and never below the branch's effect on this gradient: bounds made of these norms hold for it. Changes
/// no weights; overwrites `tape`. Empty lists if no token has a target or a number is not finite.
DepthView measure_depth(Trainer& trainer, Tape& tape, const Example& example, int iterations = 6);

}  // namespace afterglow
