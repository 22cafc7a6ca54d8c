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
/// Up to 5.22 transformers took the gated norm over all columns; config.json has no field for it.
void take_norm_of_version(ModelPlan& plan, const ConfigFields& config, nlohmann::json& mixer);
/// Tensors of a Mamba-2 layer; `ours` and `theirs` begin the names in the block.
void match_mamba2(ModelPlan& plan, std::size_t block, const nlohmann::json& mixer, const std::string& ours,
                  const std::string& theirs);
/// Writes a limit of time steps to the mixer, where a step can reach it.
void limit_steps(nlohmann::json& mixer, double least, double most);
/// Adds its blocks and their tensors to the plan.
void add_mamba_blocks(ModelPlan& plan, const ConfigFields& config, const nlohmann::json& mixer);

/// Fields of Mamba-2 inside transformers' hybrids, by their names there.
struct HybridMamba2Names {
  const char *states = "mamba_d_state", *taps = "mamba_d_conv", *heads = "mamba_n_heads", *head = "mamba_d_head",
             *groups = "mamba_n_groups", *bias = "mamba_proj_bias", *conv_bias = "mamba_conv_bias",
             *activation = "hidden_act";
};
/// The mixer of a hybrid with `inner` columns; its gated norm is taken of each group.
nlohmann::json hybrid_mamba2_mixer(const ConfigFields& config, const HybridMamba2Names& names, std::int64_t inner,
                                   double norm_eps);
/// mamba_expand times hidden_size.
std::int64_t expanded_width(const ConfigFields& config);

/// The mixer that all blocks of a recipe's model share. Throws Error(bad_input) where one has another, an MLP, or the
/// model has parts that `library` does not.
nlohmann::json common_mamba2_mixer(const nlohmann::json& model, const std::string& library);
/// A config.json for both libraries, with the differing names from `names`.
nlohmann::json mamba2_config(const nlohmann::json& model, const nlohmann::json& mixer, const Mamba2Names& names);

}  // namespace afterglow
