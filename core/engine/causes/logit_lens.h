// The head on the residual stream in front of every part: what the model would answer if it ended there.
#pragma once
#include "core/engine/observation/causes_view.h"
#include "core/engine/recipe/probe_setup.h"
#include "core/engine/training/trainer.h"

namespace afterglow {

/// Of the trainer's model as it is. Its last row is the model's own answer.
LogitLensView measure_logit_lens(Trainer& trainer, const ProbeSetup& setup);

}  // namespace afterglow
