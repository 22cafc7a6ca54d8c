// The sequence that a probe asks, and the layers that it can change.
#pragma once
#include <vector>

#include "core/engine/recipe/probe_setup.h"
#include "core/engine/training/trainer.h"

namespace afterglow {

/// The sequence that a setup asks; tokens outside the model's vocabulary or of another length are an Error(bad_input).
Example probe_example(const ProbeSetup& setup, const Task& task, std::uint64_t seed, std::int64_t vocab);

/// The layers with a Koopman operator.
std::vector<InterventionTarget> intervention_targets(const Trainer& trainer);

}  // namespace afterglow
