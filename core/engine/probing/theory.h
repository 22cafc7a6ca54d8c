// Reads the statistics of one SKA head from a probing pass and holds them against the theorems.
#pragma once
#include "core/engine/observation/theory_view.h"
#include "core/engine/training/trainer.h"
#include "core/layers/capture_reader.h"

namespace afterglow {

/// `part` has to be an `ska` layer that the pass has probed.
TheoryView read_theory(Trainer& trainer, int part, int head, const CaptureReader& read);

}  // namespace afterglow
