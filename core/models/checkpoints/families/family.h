// The families of models of transformers, except mamba2: each is a small file that writes a stack in a recipe's words.
#pragma once
#include "core/io/json.h"
#include "core/models/checkpoints/model_plan.h"

namespace afterglow {

using PlanFamily = ModelPlan (*)(const ConfigFields& config);
/// The plan of a config.json's family; null for others.
PlanFamily find_family(const json& config);

// What families share. Fields are read under transformers' names; what cannot be computed is refused by its field.

/// The word of Afterglow for `hidden_act`, or for the field `name`; of `fallback` where it is missing.
std::string activation_of(const ConfigFields& config, const char* name = "hidden_act", const char* fallback = "silu");
/// Refuses another activation, where convolutions have it too.
void require_silu(const ConfigFields& config);
/// Attention: n_heads, n_kv_heads, head_dim (hidden_size / heads where the field is missing) and position code.
json attention_mixer(const ConfigFields& config);
/// rope_parameters, or rope_theta, rope_scaling and partial_rotary_factor as before version 5. Writes rope_base,
/// rope_width and rope_scaling. By default the rotary code turns `partial` of a head; where that is the whole of it the
/// library does not read partial_rotary_factor.
void read_rotary(const ConfigFields& config, json& mixer, double partial = 1.0);

/// Matches words: "A_log o_norm.weight=norm.weight", ours and theirs where they differ, after these beginnings.
void match_names(ModelPlan& plan, std::size_t block, const std::string& ours, const std::string& theirs,
                 const std::string& names);

struct AttentionNames {
  std::string base = "self_attn.";
  const char *q_norm = "q_norm", *k_norm = "k_norm", *out = "o_proj";
  std::string ours = "attention.";  ///< begins the parameters' names in the block
};
/// Tensors of attention as attention_mixer and its options describe it; with an output gate q_proj holds both.
void match_attention(ModelPlan& plan, std::size_t block, const json& mixer, const AttentionNames& names = {});

struct MlpNames {
  std::string base = "mlp.";
  const char *gate = "gate_proj", *up = "up_proj", *down = "down_proj";
  std::string other = {};  ///< another base under which files may have it
};
/// Tensors of an MLP; `ours` names it in the block: "swiglu.", "mlp.", "experts.3.".
void match_mlp(ModelPlan& plan, std::size_t block, const json& mlp, const std::string& ours,
               const MlpNames& names = {});
struct ExpertNames {
  std::string base = "mlp.";
  const char *router = "gate.weight", *correction = "gate.e_score_correction_bias", *experts = "experts.",
             *shared = "shared_expert.", *shared_gate = "shared_expert_gate.weight";
  MlpNames expert{.base = ""}, shared_mlp{.base = ""};
};
void match_experts(ModelPlan& plan, std::size_t block, const json& experts, const ExpertNames& names = {});

/// Whether the list `name`, which may be missing, has the layer.
bool is_listed(const ConfigFields& config, const char* name, std::int64_t layer);

/// Gated DeltaNet from the fields linear_*, with the defaults of Qwen.
json delta_net_mixer(const ConfigFields& config, double norm_eps);

/// Names of Mamba-1's fields.
struct MambaNames {
  const char *states = "state_size", *taps = "conv_kernel", *expand = "expand", *rank = "time_step_rank",
             *bias = "use_bias", *conv_bias = "use_conv_bias";
};
json mamba_mixer(const ConfigFields& config, const MambaNames& names);
void match_mamba(ModelPlan& plan, std::size_t block, const json& mixer, const std::string& base);

/// The norms of a block's two parts.
void match_norms(ModelPlan& plan, std::size_t block, const std::string& mixer = "input_layernorm",
                 const std::string& mlp = "post_attention_layernorm");

/// layer_types, or by default `mixer` everywhere but `attention` in every `interval`-th layer.
std::vector<std::string> mixers_of(const ConfigFields& config, const char* mixer, const char* attention,
                                   std::int64_t interval);
/// `mixer` everywhere but "full_attention" in the layers of the list `name`, which counts from `first`.
std::vector<std::string> listed_mixers(const ConfigFields& lists, const char* name, std::int64_t first,
                                       std::int64_t layers, const char* mixer);

}  // namespace afterglow
