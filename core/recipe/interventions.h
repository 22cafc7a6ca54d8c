// Interventions on the model for the inspected sequence: heads of any layer, powers, ridges and modes of the `ska`
// layers, learned modes of the Koopman MLPs. They do not affect training.
#pragma once
#include <complex>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "core/analysis/koopman/edited_operator.h"
#include "core/recipe/command.h"

namespace afterglow {

/// Changes of modes, keyed by ModeEdit::is_number and ModeEdit::mode.
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
  std::map<int, HeadIntervention> heads{};  ///< for a Koopman MLP only head 0 and its `modes`
  SumWeights weights{};
  bool operator==(const LayerIntervention&) const = default;
};

/// By index into ModelSummary::layers; entries without effect are removed, so that equal effects are equal values.
struct Interventions {
  std::map<int, LayerIntervention> layers{};
  bool empty() const { return layers.empty(); }
  bool operator==(const Interventions&) const = default;
};

/// The changes of one head, without effect where it has none.
HeadIntervention changes_of(const Interventions& interventions, int layer, int head);

/// A layer that can be edited.
struct InterventionTarget {
  int layer = 0;  ///< index into ModelSummary::layers
  std::string label, scope;
  int heads = 0, rank = 0;         ///< rank 0: a layer without an operator, whose heads can only be switched off
  bool has_learned_modes = false;  ///< a Koopman MLP: one head of `rank` learned pairs, and nothing else to edit
};

/// A mode of a head, or a pair of a Koopman MLP (head 0).
struct ModeName {
  int layer = 0, head = 0;  ///< the layer as an index into ModelSummary::layers
  bool is_number = true;  ///< `mode` is the number that the mode keeps (HeadSpectrum::identity), else its place by size
  int mode = 0;
  bool operator==(const ModeName&) const = default;
};

/// `drag_mode`: to an eigenvalue of A_w whose parts are at most 4.
Command drag_mode(const ModeName& name, std::complex<double> to, bool is_live = false);
/// `mode_off`.
Command mode_off(const ModeName& name, bool off);

/// Carries out one of the commands `override`, `mask`, `head_off`, `mode_off`, `drag_mode` and `clear_overrides`.
/// Values: "layer": index, label or scope (absent: the first `ska`, or without one the first that fits); "head": -1
/// or absent means all; "number": of a mode, as panels show it (HeadSpectrum::identity), or "mode": its index in the
/// list of eigenvalues by modulus; -1 or absent means all. For a Koopman MLP both are the pair's index. Throws
/// Error(bad_input) and then changes nothing.
void apply_intervention(Interventions& interventions, const Command& command,
                        const std::vector<InterventionTarget>& layers);

/// The commands that create these interventions, as a recipe lists them: [{"name": .., "value": {..}}, ..].
nlohmann::json to_json(const Interventions& interventions);

}  // namespace afterglow
