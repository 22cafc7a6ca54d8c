// What a probe changes of the model while it looks: powers, ridges, heads and modes of the `ska` layers, learned modes
// of the Koopman MLPs. Training never sees it.
#pragma once
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "core/analysis/koopman/edited_operator.h"
#include "core/engine/recipe/command.h"

namespace afterglow {

/// Changes of modes, by ModeEdit::is_number and ModeEdit::mode.
using ModeEdits = std::map<std::pair<bool, int>, ModeEdit>;

struct HeadIntervention {
  bool is_off = false;
  std::optional<double> gamma{}, eta{};
  ModeEdits modes{};
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

/// Those of one head; none where nothing of it is changed.
ModeEdits edits_of(const Interventions& interventions, int layer, int head);

/// A layer that can be changed.
struct InterventionTarget {
  int layer = 0;  ///< index into ModelSummary::layers
  std::string label, scope;
  int heads = 0, rank = 0;
  bool has_learned_modes = false;  ///< a Koopman MLP: one head of `rank` learned pairs, and nothing else to change
};

/// Carries out one of the commands `override`, `head_off`, `mode_off`, `drag_mode` and `clear_overrides`. Values:
/// "layer": index, label or scope (without it: the first `ska`, or where there is none the first Koopman MLP); "head":
/// -1 or absent means all; "number": of a mode, as every panel names it (HeadSpectrum::identity), or "mode": its place
/// in the list of eigenvalues by modulus; -1 or absent means all. Of a Koopman MLP both are the pair's place. Throws
/// Error(bad_input) that says what is wrong; then nothing changed.
void apply_intervention(Interventions& interventions, const Command& command,
                        const std::vector<InterventionTarget>& layers);

/// The commands that make these interventions from none: what a recipe and "copy as command" hold.
std::vector<Command> commands_of(const Interventions& interventions);

}  // namespace afterglow
