// Surgery (weight edit): fits the key projections of Koopman heads so that their operators on one sequence have given
// eigenvalues, and sets the learned eigenvalues of a Koopman MLP; all other weights stay. It makes moved eigenvalues
// permanent.
#pragma once
#include <nlohmann/json_fwd.hpp>

#include "core/engine/observation/observation.h"
#include "core/engine/training/trainer.h"
#include "core/recipe/inspection_setup.h"

namespace afterglow {

/// The value of `surgery` in a recipe: an inspected sequence's setup, of which the sequence and the moved eigenvalues
/// are used. Throws Error(bad_input) if none is moved or a field is invalid.
InspectionSetup parse_surgery(const nlohmann::json& value, const Trainer& trainer);

struct SurgeryResult {
  InspectionSetup exact;  ///< the surgery with the exact target eigenvalues
  double distance = 0;    ///< largest |eigenvalue - target| with the stored weights
};
/// Changes the trainer's weights. Throws Error(bad_input) and changes nothing if the eigenvalues cannot be reached.
/// `model` is the recipe's; `numbered` gives the mode numbers that `surgery` may use. The result names modes by their
/// index instead, so that it does not depend on `numbered`.
SurgeryResult carry_out(Trainer& trainer, const nlohmann::json& model, const InspectionSetup& surgery,
                        const Spectra* numbered = nullptr);

}  // namespace afterglow
