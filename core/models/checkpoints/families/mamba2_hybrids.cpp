// Hybrids of Mamba-2 and attention whose blocks have a mixer and an MLP: bamba, granitemoehybrid (with and without
// experts), and falcon_h1, which has both mixers side by side.
#include <algorithm>
#include <cmath>

#include "core/models/checkpoints/families/family.h"
#include "core/models/checkpoints/mamba2_fields.h"

namespace afterglow {
namespace {

json mamba2_of(ModelPlan& plan, const ConfigFields& config, double eps, std::int64_t inner,
               const HybridMamba2Names& names = {}) {
  json mixer = hybrid_mamba2_mixer(config, names, inner, eps);
  const auto [least, most] = config.range("time_step_limit", {0.0, 1e30});
  limit_steps(mixer, least, most);
  if (config.fields()["model_type"] != "falcon_h1") take_norm_of_version(plan, config, mixer);
  return mixer;
}

json swiglu_of(const ConfigFields& config, std::int64_t default_width) {
  return {{"kind", "swiglu"},
          {"d_ff", config.integer("intermediate_size", default_width)},
          {"activation", activation_of(config)},
          {"bias", config.flag("mlp_bias", false)}};
}

/// Gate and up of all experts, or of the one MLP, lie in one tensor, and their down projections in another.
void match_granite_mlp(ModelPlan& plan, std::size_t block, const std::string& ours, const std::string& theirs,
                       std::int64_t width, std::int64_t expert = 0, std::int64_t experts = 1) {
  const std::int64_t down = plan.model["d_model"], stacked = experts > 1 ? experts : 0;
  const auto match = [&](const char* own, const char* other, std::int64_t rows, std::int64_t stride,
                         std::int64_t first) {
    WeightMatch& weight = plan.match(block, ours + own, theirs + other)
                              .take({.width = rows, .first = expert * stride + first}, experts * stride);
    weight.stacked = stacked;
  };
  match("w_gate.weight", "input_linear.weight", width, 2 * width, 0);
  match("w_up.weight", "input_linear.weight", width, 2 * width, width);
  match("w_down.weight", "output_linear.weight", down, down, 0);
}

/// A list of `count` factors; ones where it is missing.
std::vector<double> factors_of(const ConfigFields& config, const char* name, std::size_t count) {
  if (!config.has(name)) return std::vector<double>(count, 1.0);
  const json& list = config.fields()[name];
  if (!list.is_array() || list.size() != count ||
      !std::ranges::all_of(list, [](const json& one) { return one.is_number(); }))
    config.refuse(name, "a list of ", count, " numbers is expected; correct it");
  return list.get<std::vector<double>>();
}

bool is_attention(const std::string& word) { return word == "full_attention" || word == "attention"; }

}  // namespace

ModelPlan plan_bamba(const ConfigFields& config) {
  const double eps = config.number("rms_norm_eps", 1e-5);
  ModelPlan plan(config, eps, "model.", "final_layernorm.weight", "embed_tokens.weight");
  const json mamba2 = mamba2_of(plan, config, eps, expanded_width(config)), mlp = swiglu_of(config, 14336);
  json attention = attention_mixer(config), fields = config.fields();
  fields["partial_rotary_factor"] = 0.5;  // whatever stands next to rope_parameters
  read_rotary(config.filled(fields), attention, 0.5);
  for (std::int64_t i = 0; i < config.layers(); ++i) {
    const bool attends = is_listed(config, "attn_layer_indices", i);
    const auto block = static_cast<std::size_t>(i);
    match_norms(plan, block, "input_layernorm", "pre_ff_layernorm");
    attends ? match_attention(plan, block, attention) : match_mamba2(plan, block, mamba2, "mamba2.", "mamba.");
    match_mlp(plan, block, mlp, "swiglu.", {.base = "feed_forward."});
    plan.add_block({{"mixer", attends ? attention : mamba2}, {"mlp", mlp}});
  }
  return plan;
}

ModelPlan plan_granite(const ConfigFields& config) {
  const double eps = config.number("rms_norm_eps", 1e-6);
  ModelPlan plan(config, eps, "model.", "norm.weight", "embed_tokens.weight");
  plan.model["embedding_scale"] = config.number("embedding_multiplier", 1);
  plan.model["logit_scale"] = 1 / config.number("logits_scaling", 1);
  std::vector<std::string> words = config.layer_words("layer_types");
  if (words.empty()) words = config.layer_words("layers_block_type");
  words.resize(static_cast<std::size_t>(config.layers()), "mamba");
  const char* convolved = std::ranges::all_of(words, is_attention) ? "" : "hidden_act";  // which must be silu there
  const json mamba2 = mamba2_of(plan, config, eps, expanded_width(config), {.activation = convolved});
  json attention = attention_mixer(config);
  attention["scale"] = config.number("attention_multiplier", 1);
  const std::string position = config.text("position_embedding_type", "nope");
  attention["use_rope"] = position == "rope";
  if (position == "rope") read_rotary(config, attention);
  if (position != "rope" && position != "nope") config.refuse("position_embedding_type", "rope and none are computed");
  const std::int64_t experts = config.has("num_local_experts") ? config.count("num_local_experts") : 8,
                     shared = config.integer("shared_intermediate_size", 1024);
  json mlp{{"kind", "swiglu"}, {"d_ff", shared}, {"activation", activation_of(config)}};
  if (experts > 0)
    mlp.update({{"kind", "experts"},
                {"d_ff", config.integer("intermediate_size", 11008)},
                {"experts", experts},
                {"chosen", config.integer("num_experts_per_tok", 2)},
                {"normalised", true},
                {"shared_ff", shared}});
  for (std::size_t block = 0; const std::string& word : words) {
    const bool attends = is_attention(word);
    if (!attends && word != "linear_attention" && word != "mamba")
      config.refuse("layer_types", "linear_attention and full_attention are expected; correct it");
    match_norms(plan, block);
    attends ? match_attention(plan, block, attention) : match_mamba2(plan, block, mamba2, "mamba2.", "mamba.");
    if (experts > 0) plan.match(block, "experts.router.weight", "block_sparse_moe.router.layer.weight");
    for (std::int64_t e = 0; e < experts; ++e)
      match_granite_mlp(plan, block, "experts." + std::to_string(e) + ".", "block_sparse_moe.", mlp["d_ff"], e,
                        experts);
    match_granite_mlp(plan, block, experts > 0 ? "experts.shared." : "swiglu.", "shared_mlp.", shared);
    plan.add_block({{"mixer", attends ? attention : mamba2},
                    {"mlp", mlp},
                    {"output_scale", config.number("residual_multiplier", 1)}});
    ++block;
  }
  return plan;
}

ModelPlan plan_falcon_h1(const ConfigFields& config) {
  const double eps = config.number("rms_norm_eps", 1e-5);
  ModelPlan plan(config, eps, "model.", "final_layernorm.weight", "embed_tokens.weight");
  plan.model["embedding_scale"] = config.number("embedding_multiplier", 1);
  plan.model["logit_scale"] = config.number("lm_head_multiplier", 1);
  const std::int64_t inner =
      config.has("mamba_d_ssm") ? config.integer("mamba_d_ssm", std::nullopt) : expanded_width(config);
  json mamba2 = mamba2_of(plan, config, eps, inner);
  const bool has_norm = config.flag("mamba_rms_norm", false);
  const std::vector<double> streams = factors_of(config, "ssm_multipliers", 5),
                            mlps = factors_of(config, "mlp_multipliers", 2);
  mamba2.update({{"rmsnorm", has_norm},
                 {"norm_before_gate", has_norm && config.flag("mamba_norm_before_gate", true)},
                 {"out_bias", config.flag("projectors_bias", false)},
                 {"in_scales",
                  {{"gate", streams[0]}, {"x", streams[1]}, {"B", streams[2]}, {"C", streams[3]}, {"dt", streams[4]}}},
                 {"input_scale", config.number("ssm_in_multiplier", 1)},
                 {"output_scale", config.number("ssm_out_multiplier", 1)}});
  json attention = attention_mixer(config);
  read_rotary(config, attention);
  attention.update({{"scale", config.number("key_multiplier", 1) / std::sqrt(attention["head_dim"].get<double>())},
                    {"input_scale", config.number("attention_in_multiplier", 1)},
                    {"output_scale", config.number("attention_out_multiplier", 1)}});
  json mlp = swiglu_of(config, 14336);
  mlp.update({{"gate_scale", mlps[0]}, {"output_scale", mlps[1]}});
  const json mixer{{"kind", "parallel"}, {"parts", {attention, mamba2}}};
  for (std::size_t block = 0; block < static_cast<std::size_t>(config.layers()); ++block) {
    match_norms(plan, block, "input_layernorm", "pre_ff_layernorm");
    match_attention(plan, block, attention, {.ours = "parallel.attention."});
    match_mamba2(plan, block, mamba2, "parallel.mamba2.", "mamba.");
    match_mlp(plan, block, mlp, "swiglu.", {.base = "feed_forward."});
    plan.add_block({{"mixer", mixer}, {"mlp", mlp}});
  }
  return plan;
}

}  // namespace afterglow
