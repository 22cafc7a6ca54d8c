// Mamba-2 in a config.json: transformers and flash-linear-attention have the same tensors and nearly the same fields.
#pragma once
#include "core/models/checkpoints/model_plan.h"

namespace afterglow {

/// Names of the fields that differ between the two libraries.
struct Mamba2Names {
  const char *norm_eps, *step_limit;
  std::int64_t group_default;
};

/// Whether a "mamba2" is from flash-linear-attention, by the fields that only that library writes in all versions.
bool is_mamba2_of_fla(const nlohmann::json& config);

/// The mixer of all blocks, as in a recipe.
nlohmann::json mamba2_mixer(const ConfigFields& config, const Mamba2Names& names);
/// Whether the gated norm of a model with groups is computed per group; the plan notes this with `why`.
void take_gated_norm(ModelPlan& plan, nlohmann::json& mixer, bool per_group, const std::string& why);
/// Adds its blocks and their tensors to the plan.
void add_mamba2_blocks(ModelPlan& plan, const ConfigFields& config, const nlohmann::json& mixer);

/// The mixer that all blocks of a recipe's model share. Throws Error(bad_input) where one has another, an MLP, or the
/// model has parts that `library` does not.
nlohmann::json common_mamba2_mixer(const nlohmann::json& model, const std::string& library);
/// A config.json for both libraries, with the differing names from `names`.
nlohmann::json mamba2_config(const nlohmann::json& model, const nlohmann::json& mixer, const Mamba2Names& names);

}  // namespace afterglow
