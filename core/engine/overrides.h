// What a probe changes of the model while it looks: powers, ridges, heads and modes of the `ska` layers. Training never
// sees it.
#pragma once
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <vector>

#include "core/analysis/edited_operator.h"
#include "core/engine/command.h"

namespace afterglow {

struct HeadOverride {
  bool is_off = false;
  std::optional<double> gamma{}, eta{};
  std::map<int, ModeEdit> modes{};  ///< by ModeEdit::mode
  bool operator==(const HeadOverride&) const = default;
};

struct LayerOverride {
  std::optional<int> power{};     ///< K
  std::optional<double> ridge{};  ///< eps
  std::map<int, HeadOverride> heads{};
  bool operator==(const LayerOverride&) const = default;
};

/// By index into ModelSummary::layers; entries that change nothing are not kept, so equal effects are equal values.
struct Overrides {
  std::map<int, LayerOverride> layers{};
  bool empty() const { return layers.empty(); }
  bool operator==(const Overrides&) const = default;
};

/// A layer that can be overridden.
struct OverridableLayer {
  int layer = 0;  ///< index into ModelSummary::layers
  std::string label, scope;
  int heads = 0, rank = 0;
};

/// Carries out one of the commands `override`, `head_off`, `mode_off`, `drag_mode` and `clear_overrides`. Values:
/// "layer": index, label or scope (without it: the first one); "head": -1 or absent means all; "mode": place in the
/// list of eigenvalues, -1 or absent means all. Throws Error(bad_input) that says what is wrong; then nothing changed.
void apply_override(Overrides& overrides, const Command& command, const std::vector<OverridableLayer>& layers);

/// The commands that make these overrides from none: what a recipe and "copy as command" hold.
std::vector<Command> commands_of(const Overrides& overrides);

}  // namespace afterglow
