// What a probe's setup means for a trainer's task and model.
#include "core/engine/training/probe_example.h"

#include "core/io/error.h"
#include "core/layers/layer_traits.h"
#include "core/layers/ska.h"

namespace afterglow {

Example probe_example(const ProbeSetup& setup, const Task& task, std::uint64_t seed, std::int64_t vocab) {
  Example example = task.example(seed, setup.index, Split::held_out);
  if (setup.tokens.empty()) return example;
  if (setup.tokens.size() != example.tokens.size()) {
    throw Error(ExitCode::bad_input, "a probe sequence of this task has " + std::to_string(example.tokens.size()) +
                                         " tokens, not " + std::to_string(setup.tokens.size()));
  }
  for (const int token : setup.tokens) {
    if (token < 0 || token >= vocab)
      throw Error(ExitCode::bad_input,
                  "token " + std::to_string(token) + " is outside the vocabulary of " + std::to_string(vocab));
  }
  example.tokens.assign(setup.tokens.begin(), setup.tokens.end());
  return example;
}

std::vector<InterventionTarget> intervention_targets(const Trainer& trainer) {
  std::vector<InterventionTarget> targets;
  const auto& parts = trainer.parts();
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (!shows(parts[i].kind, LayerTrait::koopman_heads)) continue;
    const auto& ska =
        static_cast<const Ska&>(*trainer.model().branches()[static_cast<std::size_t>(parts[i].branch)].layer);
    targets.push_back({static_cast<int>(i), parts[i].label, parts[i].scope, static_cast<int>(ska.config().heads),
                       static_cast<int>(ska.config().rank)});
  }
  return targets;
}

}  // namespace afterglow
