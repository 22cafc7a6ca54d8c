// Reads the statistics of one SKA head from a capturing pass and compares them with the theorems.
#pragma once
#include <cstdint>
#include <span>

#include "core/engine/analyses/theory/theory_view.h"
#include "core/engine/training/trainer.h"
#include "core/layers/capture_reader.h"

namespace afterglow {

/// `part` must be an `ska` layer whose pass over one sequence was captured; `context` [T] is that sequence's mask.
TheoryView read_theory(Trainer& trainer, int part, int head, const CaptureReader& read,
                       std::span<const std::uint8_t> context);

/// A forward and a backward pass, branch by branch, and `iterations` rounds of power iteration for each branch,
/// starting at the gradient that arrives there. Every round gives |J^T u| for a unit vector u, so a norm is never above
/// the true one and never below the branch's effect on this gradient: bounds made of these norms hold for it. Changes
/// no weights; overwrites `tape`. Empty lists if no token has a target or a number is not finite.
DepthView measure_depth(Trainer& trainer, Tape& tape, const Example& example, int iterations = 6);

}  // namespace afterglow
