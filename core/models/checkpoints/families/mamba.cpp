// mamba; falcon_mamba, which divides time step, B and C by their root mean square; jamba: Mamba-1 with norms of time
// step, B and C, attention without position code, and experts in some layers.
#include "core/models/checkpoints/families/family.h"
#include "core/models/checkpoints/mamba2_fields.h"

namespace afterglow {
namespace {

/// Whether layer i is one of every `period` layers from `offset` on.
bool is_chosen(const ConfigFields& config, std::int64_t i, const char* period, const char* offset,
               std::int64_t default_period, std::int64_t default_offset) {
  return i % config.integer(period, default_period) == (config.has(offset) ? config.count(offset) : default_offset);
}

}  // namespace

ModelPlan plan_mamba(const ConfigFields& config) {
  const bool is_falcon = config.fields()["model_type"] == "falcon_mamba";
  json outer = config.fields();
  outer["tie_word_embeddings"] = config.flag("tie_word_embeddings", true);
  ModelPlan plan(config.filled(outer), config.number("layer_norm_epsilon", 1e-5), "backbone.", "norm_f.weight");
  json mixer = mamba_mixer(config, {});
  mixer["d_inner"] = config.integer("intermediate_size", mixer["d_inner"].get<std::int64_t>());
  if (is_falcon) mixer.update({{"scan_norm", "plain"}, {"norm_eps", config.number("mixer_rms_eps", 1e-6)}});
  add_mamba_blocks(plan, config, mixer);
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

ModelPlan plan_jamba(const ConfigFields& config) {
  const double eps = config.number("rms_norm_eps", 1e-6);
  ModelPlan plan(config, eps, "model.", "final_layernorm.weight", "embed_tokens.weight");
  json mamba = mamba_mixer(config, {.states = "mamba_d_state",
                                    .taps = "mamba_d_conv",
                                    .expand = "mamba_expand",
                                    .rank = "mamba_dt_rank",
                                    .bias = "mamba_proj_bias",
                                    .conv_bias = "mamba_conv_bias"});
  mamba.update({{"scan_norm", "weighted"}, {"norm_eps", eps}});
  json attention = attention_mixer(config);
  attention.update({{"use_rope", false}, {"qkv_bias", false}, {"o_bias", false}});
  const std::int64_t width = config.integer("intermediate_size", 14336), count = config.integer("num_experts", 16),
                     chosen = config.integer("num_experts_per_tok", 2);
  const std::string activation = activation_of(config);
  const json dense{{"kind", "swiglu"}, {"d_ff", width}, {"activation", activation}},
      experts{{"kind", "experts"}, {"d_ff", width}, {"experts", count}, {"chosen", chosen}, {"activation", activation}};
  for (std::int64_t i = 0; i < config.layers(); ++i) {
    const bool attends = is_chosen(config, i, "attn_layer_period", "attn_layer_offset", 8, 4),
               routes = count > 1 && is_chosen(config, i, "expert_layer_period", "expert_layer_offset", 2, 1);
    const auto block = static_cast<std::size_t>(i);
    match_norms(plan, block, "input_layernorm", "pre_ff_layernorm");
    attends ? match_attention(plan, block, attention) : match_mamba(plan, block, mamba, "mamba.");
    routes ? match_experts(plan, block, experts, {.base = "feed_forward.", .router = "router.weight"})
           : match_mlp(plan, block, dense, "swiglu.", {.base = "feed_forward."});
    plan.add_block({{"mixer", attends ? attention : mamba}, {"mlp", routes ? experts : dense}});
  }
  return plan;
}

}  // namespace afterglow
