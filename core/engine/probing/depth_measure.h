// Gradients of one sequence's loss at every depth of a model, and the norms of its branches' Jacobians.
#pragma once
#include "core/engine/observation/depth_view.h"
#include "core/engine/training/trainer.h"

namespace afterglow {

/// One pass up and one down, branch by branch, and a power iteration of `iterations` rounds for each branch that starts
/// at the gradient that comes down. Every round gives |J^T u| for a unit vector u, so a norm is never above the true
/// one and never below what the branch does to this gradient: the bounds made of them hold for it. Reads the weights
/// alone; `tape` begins anew. Empty lists where no answer is asked for or a number is not finite.
DepthView measure_depth(Trainer& trainer, Tape& tape, const Example& example, int iterations = 6);

}  // namespace afterglow
