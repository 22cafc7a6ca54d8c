// mamba, and falcon_mamba, which divides time step, B and C by their root mean square.
#include "core/models/checkpoints/families/family.h"

namespace afterglow {

ModelPlan plan_mamba(const ConfigFields& config) {
  const bool is_falcon = config.fields()["model_type"] == "falcon_mamba";
  json outer = config.fields();
  outer["tie_word_embeddings"] = config.flag("tie_word_embeddings", true);
  ModelPlan plan(config.filled(outer), config.number("layer_norm_epsilon", 1e-5), "backbone.", "norm_f.weight");
  json mixer = mamba_mixer(config, {});
  mixer["d_inner"] = config.integer("intermediate_size", mixer["d_inner"].get<std::int64_t>());
  if (is_falcon) mixer.update({{"scan_norm", "plain"}, {"norm_eps", config.number("mixer_rms_eps", 1e-6)}});
  for (std::size_t block = 0; block < static_cast<std::size_t>(config.layers()); ++block) {
    plan.match(block, "mixer_norm.weight", "norm.weight");
    match_mamba(plan, block, mixer, "mixer.");
    plan.add_block({{"mixer", mixer}});
  }
  return plan;
}

json mamba_mixer(const ConfigFields& config, const MambaNames& names) {
  require_silu(config);
  const std::int64_t width = config.integer("hidden_size", std::nullopt);
  json mixer{{"kind", "mamba"},
             {"d_state", config.integer(names.states, 16)},
             {"d_conv", config.integer(names.taps, 4)},
             {"d_inner", static_cast<std::int64_t>(config.number(names.expand, 2) * static_cast<double>(width))},
             {"bias", config.flag(names.bias, false)},
             {"conv_bias", config.flag(names.conv_bias, true)}};
  if (config.has(names.rank) && config.fields()[names.rank] != "auto")
    mixer["dt_rank"] = config.integer(names.rank, std::nullopt);
  return mixer;
}

void match_mamba(ModelPlan& plan, std::size_t block, const json& mixer, const std::string& base) {
  std::string names = "in_proj.weight conv1d.weight x_proj.weight dt_proj.weight dt_proj.bias A_log D out_proj.weight";
  if (mixer["bias"].get<bool>()) names += " in_proj.bias out_proj.bias";
  if (mixer["conv_bias"].get<bool>()) names += " conv1d.bias";
  if (mixer.value("scan_norm", "none") == "weighted")
    names += " dt_norm.weight=dt_layernorm.weight B_norm.weight=b_layernorm.weight C_norm.weight=c_layernorm.weight";
  match_names(plan, block, "mamba.", base, names);
}

}  // namespace afterglow
