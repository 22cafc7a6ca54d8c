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

}  // namespace afterglow
