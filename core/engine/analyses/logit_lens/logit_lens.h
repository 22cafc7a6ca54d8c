// The head applied to the residual stream before every part: the model's answer if it ended there.
#pragma once
#include "core/engine/observation/causes_view.h"
#include "core/engine/recipe/inspection_setup.h"
#include "core/engine/training/trainer.h"

namespace afterglow {

/// For the trainer's model without interventions. The last row is the model's own answer.
LogitLensView measure_logit_lens(Trainer& trainer, const InspectionSetup& setup);

}  // namespace afterglow
