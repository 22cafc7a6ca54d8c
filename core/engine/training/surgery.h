// Surgery: the key projections of Koopman heads are fitted so that their operators on one sequence have given
// eigenvalues, and those of a Koopman MLP are written where they are learned; all other weights stay. What a probe only
// asks with dragged eigenvalues is made true of the weights.
#pragma once
#include <nlohmann/json_fwd.hpp>

#include "core/engine/observation/observation.h"
#include "core/engine/recipe/probe_setup.h"
#include "core/engine/training/trainer.h"

namespace afterglow {

/// What the command `surgery` holds in a recipe: a probe's setup, of which the sequence and the moved eigenvalues
/// count. Throws Error(bad_input) where none is moved or a field makes no sense.
ProbeSetup parse_surgery(const nlohmann::json& value, const Trainer& trainer);

struct SurgeryResult {
  ProbeSetup exact;     ///< the surgery with the eigenvalues that the moved ones were to become
  double distance = 0;  ///< of the weights as they are stored: the largest |eigenvalue - target|
};
/// Changes the weights of the trainer. Throws Error(bad_input), and nothing is changed, where the eigenvalues cannot be
/// brought there. `model` is the recipe's; `numbered` gives modes their numbers, by which `surgery` may name them. The
/// exact one names them by their places, so that it means the same without.
SurgeryResult carry_out(Trainer& trainer, const nlohmann::json& model, const ProbeSetup& surgery,
                        const Spectra* numbered = nullptr);

}  // namespace afterglow
