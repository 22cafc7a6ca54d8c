// The memory of the clean sequence in the corrupted one: what it then answers, and what was put in.
#pragma once
#include "core/engine/observation/causes_view.h"
#include "core/engine/recipe/probe_setup.h"
#include "core/engine/training/trainer.h"

namespace afterglow {

/// Of the trainer's model as it is, in the recurrent form. A layer, part, token or head that the model does not have is
/// taken as "choose for me"; the view's choice says what was taken.
TransplantView measure_transplant(Trainer& trainer, const ProbeSetup& setup);

}  // namespace afterglow
