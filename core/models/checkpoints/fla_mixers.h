// The token mixers of flash-linear-attention that have their own model classes, except Mamba-2.
#pragma once
#include "core/models/checkpoints/model_plan.h"

namespace afterglow {

struct FlaMixer {
  const char *model_type, *kind, *architecture;  ///< kind: Afterglow's layer
  /// The layer's configuration, as in a recipe.
  nlohmann::json (*mixer)(const ConfigFields& config);
  /// Its tensors in one block.
  void (*match)(ModelPlan& plan, std::size_t block, const ConfigFields& config, const nlohmann::json& mixer);
  /// Writes the fields of a layer into a config.json. Throws Error(bad_input) for what the library does not have.
  void (*describe)(const nlohmann::json& mixer, nlohmann::json& config, std::vector<std::string>& notes);
};

/// Found by the library's model_type, a text, or by the kind of Afterglow's layer; null for others.
const FlaMixer* find_fla_mixer(const nlohmann::json& model_type);
const FlaMixer* find_fla_mixer_of(const nlohmann::json& kind);

}  // namespace afterglow
