// The sequence that a probe asks, and the layers that it can change.
#pragma once
#include <string>
#include <vector>

#include "core/engine/recipe/probe_setup.h"
#include "core/engine/training/trainer.h"

namespace afterglow {

/// Of sequences of another task than the run's.
constexpr int max_probe_tokens = 512;

/// The sequence that a setup asks, of the run's own task or of the setup's; tokens outside the model's vocabulary or of
/// another length are an Error(bad_input).
Example probe_example(const ProbeSetup& setup, const Task& own, std::uint64_t seed, std::int64_t vocab);

/// "niah, 8 bindings, 128 tokens"; empty where the sequence is of the run's own task.
std::string name_of_task(const ProbeSetup& setup);

/// The layers with a Koopman operator, and the Koopman MLPs.
std::vector<InterventionTarget> intervention_targets(const Trainer& trainer);

}  // namespace afterglow
