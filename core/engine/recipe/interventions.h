// What a probe changes of the model while it looks: powers, ridges, heads and modes of the `ska` layers, learned modes
// of the Koopman MLPs. Training never sees it.
#pragma once
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <vector>

#include "core/analysis/koopman/edited_operator.h"
#include "core/engine/recipe/command.h"

namespace afterglow {

struct HeadIntervention {
  bool is_off = false;
  std::optional<double> gamma{}, eta{};
  std::map<int, ModeEdit> modes{};  ///< by ModeEdit::mode
  bool operator==(const HeadIntervention&) const = default;
};

struct LayerIntervention {
  std::optional<int> power{};               ///< K
  std::optional<double> ridge{};            ///< eps
  std::map<int, HeadIntervention> heads{};  ///< of a Koopman MLP head 0 alone, and of it `modes`
  bool operator==(const LayerIntervention&) const = default;
};

/// By index into ModelSummary::layers; entries that change nothing are not kept, so equal effects are equal values.
struct Interventions {
  std::map<int, LayerIntervention> layers{};
  bool empty() const { return layers.empty(); }
  bool operator==(const Interventions&) const = default;
};

/// A layer that can be changed.
struct InterventionTarget {
  int layer = 0;  ///< index into ModelSummary::layers
  std::string label, scope;
  int heads = 0, rank = 0;
  bool has_learned_modes = false;  ///< a Koopman MLP: one head of `rank` learned pairs, and nothing else to change
};

/// Carries out one of the commands `override`, `head_off`, `mode_off`, `drag_mode` and `clear_overrides`. Values:
/// "layer": index, label or scope (without it: the first `ska`, or where there is none the first Koopman MLP); "head":
/// -1 or absent means all; "mode": place in the list of eigenvalues, -1 or absent means all. Throws Error(bad_input)
/// that says what is wrong; then nothing changed.
void apply_intervention(Interventions& interventions, const Command& command,
                        const std::vector<InterventionTarget>& layers);

/// The commands that make these interventions from none: what a recipe and "copy as command" hold.
std::vector<Command> commands_of(const Interventions& interventions);

}  // namespace afterglow
