// State patching: the state of the clean sequence in the corrupted one, and the resulting answer.
#pragma once
#include "core/engine/observation/causes_view.h"
#include "core/engine/training/trainer.h"
#include "core/recipe/inspection_setup.h"

namespace afterglow {

/// For the trainer's model without interventions, in the recurrent form. A layer, part, token or head that the model
/// does not have is replaced by a default; the view says which were used.
TransplantView measure_transplant(Trainer& trainer, const InspectionSetup& setup);

}  // namespace afterglow
