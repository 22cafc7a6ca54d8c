// nemotron_h: blocks of one part each, Mamba-2, attention without position code, an MLP without a gate, or experts.
#include <map>

#include "core/models/checkpoints/families/family.h"
#include "core/models/checkpoints/mamba2_fields.h"

namespace afterglow {
namespace {

/// A word for each layer: layers_block_type (or layer_types), or the letters of hybrid_override_pattern.
std::vector<std::string> parts_of(const ConfigFields& config) {
  static const std::map<std::string, std::string> words{{"M", "mamba2"},
                                                        {"linear_attention", "mamba2"},
                                                        {"mamba", "mamba2"},
                                                        {"*", "attention"},
                                                        {"attention", "attention"},
                                                        {"full_attention", "attention"},
                                                        {"-", "mlp"},
                                                        {"mlp", "mlp"},
                                                        {"E", "experts"},
                                                        {"moe", "experts"}};
  const char* field = config.has("layers_block_type") ? "layers_block_type"
                      : config.has("layer_types")     ? "layer_types"
                                                      : "hybrid_override_pattern";
  if (!config.has(field)) config.refuse("layers_block_type", "a word for each layer is expected there");
  json list = config.fields()[field];
  if (list.is_string()) {
    json letters = json::array();
    for (const char letter : list.get<std::string>()) letters.push_back(std::string(1, letter));
    list = letters;
  }
  std::vector<std::string> parts;
  if (list.is_array() && !list.empty() && list.size() <= 1024) {
    for (const json& one : list) {
      const auto found = one.is_string() ? words.find(one.get<std::string>()) : words.end();
      if (found != words.end()) parts.push_back(found->second);
    }
  }
  if (parts.empty() || parts.size() != list.size())
    config.refuse(field, "words of linear_attention, full_attention, mlp and moe are expected; correct it");
  return parts;
}

json experts_of(const ConfigFields& config, const std::string& activation) {
  const std::int64_t groups = config.integer("n_group", 1);
  return {{"kind", "experts"},
          {"d_ff", config.integer("moe_intermediate_size", 7688)},
          {"experts", config.integer("n_routed_experts", 8)},
          {"chosen", config.integer("num_experts_per_tok", 2)},
          {"router", "sigmoid"},
          {"normalised", config.flag("norm_topk_prob", true)},
          {"norm_eps", 1e-20},
          {"factor", config.number("routed_scaling_factor", 1)},
          {"groups", groups},
          {"kept_groups", config.integer("topk_group", 1)},
          {"correction", true},
          {"gated", false},
          {"activation", activation},
          {"shared_ff", config.integer("moe_shared_expert_intermediate_size", 7688)},
          {"latent", config.has("moe_latent_size") ? config.integer("moe_latent_size", std::nullopt) : 0}};
}

}  // namespace

ModelPlan plan_nemotron_h(const ConfigFields& config) {
  const double eps = config.number("layer_norm_epsilon", 1e-5);
  ModelPlan plan(config, eps, "backbone.", "norm_f.weight");
  plan.holds_no_weights("mtp.");
  const std::vector<std::string> words = parts_of(config);
  const std::string activation = config.has("mlp_hidden_act") ? activation_of(config, "mlp_hidden_act") : "relu2";
  std::map<std::string, json> parts;
  const std::int64_t inner = config.integer("mamba_num_heads", 128) * config.integer("mamba_head_dim", 64);
  parts["mamba2"] = hybrid_mamba2_mixer(config,
                                        {.states = "ssm_state_size",
                                         .taps = "conv_kernel",
                                         .heads = "mamba_num_heads",
                                         .head = "mamba_head_dim",
                                         .groups = "n_groups",
                                         .bias = "use_bias",
                                         .conv_bias = "use_conv_bias",
                                         .activation = "mamba_hidden_act"},
                                        inner, eps);
  limit_steps(parts["mamba2"], config.number("time_step_min", 1e-3), 1e30);  // time_step_limit has no effect there
  parts["attention"] = attention_mixer(config);
  parts["attention"].update({{"use_rope", false}, {"qkv_bias", false}, {"o_bias", false}});
  const json mlp{{"kind", "mlp"},
                 {"d_ff", config.integer("intermediate_size", 21504)},
                 {"activation", activation},
                 {"bias", config.flag("mlp_bias", false)}};
  const bool routes = std::ranges::find(words, "experts") != words.end();
  const json experts = routes ? experts_of(config, activation) : json();
  if (routes && config.flag("mlp_bias", false)) config.refuse("mlp_bias", "experts with biases are not computed here");
  for (std::size_t block = 0; block < words.size(); ++block) {
    const std::string& word = words[block];
    const bool mixes = parts.contains(word);
    plan.match(block, mixes ? "mixer_norm.weight" : "mlp_norm.weight", "norm.weight");
    if (word == "mamba2") match_mamba2(plan, block, parts[word], "mamba2.", "mixer.");
    if (word == "attention") match_attention(plan, block, parts[word], {.base = "mixer."});
    if (word == "mlp") match_mlp(plan, block, mlp, "mlp.", {.base = "mixer."});
    if (word == "experts") match_experts(plan, block, experts, {.base = "mixer.", .shared = "shared_experts."});
    if (word == "experts" && experts["latent"] > 0)
      match_names(plan, block, "experts.", "mixer.",
                  "to_latent.weight=fc1_latent_proj.weight from_latent.weight=fc2_latent_proj.weight");
    plan.add_block(mixes ? json{{"mixer", parts[word]}} : json{{"mlp", word == "mlp" ? mlp : experts}});
  }
  return plan;
}

}  // namespace afterglow
