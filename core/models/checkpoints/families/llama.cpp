// Plain transformers, llama and qwen3; lfm2.
#include "core/models/checkpoints/families/family.h"

namespace afterglow {
namespace {

/// Which layers see a window: layer_types, or those from max_window_layers on.
std::vector<bool> windowed_layers(const ConfigFields& config) {
  std::vector<bool> windowed;
  const bool has_window = config.flag("use_sliding_window", false) && config.has("sliding_window");
  const std::int64_t first = config.has("max_window_layers") ? config.count("max_window_layers") : 28;
  for (std::int64_t i = 0; i < config.layers(); ++i) windowed.push_back(has_window && i >= first);
  std::size_t layer = 0;
  for (const std::string& word : config.layer_words("layer_types")) {
    if (word != "full_attention" && (word != "sliding_attention" || !config.has("sliding_window")))
      config.refuse("layer_types", "full_attention, and sliding_attention with a sliding_window, are computed here");
    windowed[layer++] = word == "sliding_attention";
  }
  return windowed;
}

/// The width of the MLP, which by default is two thirds of the field, rounded up.
std::int64_t mlp_width(const ConfigFields& config) {
  std::int64_t width = config.integer(config.has("block_ff_dim") ? "block_ff_dim" : "intermediate_size", 12288);
  if (!config.flag("block_auto_adjust_ff_dim", true)) return width;
  width = 2 * width / 3;
  width = static_cast<std::int64_t>(config.number("block_ffn_dim_multiplier", 1.0) * static_cast<double>(width));
  const std::int64_t step = config.integer("block_multiple_of", 256);
  return (width + step - 1) / step * step;
}

}  // namespace

ModelPlan plan_plain(const ConfigFields& config) {
  const bool is_qwen = config.fields()["model_type"] == "qwen3";
  ModelPlan plan(config, config.number("rms_norm_eps", 1e-6), "model.", "norm.weight", "embed_tokens.weight");
  json mixer = attention_mixer(config);
  read_rotary(config, mixer);
  if (is_qwen) mixer.update({{"qk_norm", "head"}, {"norm_eps", config.number("rms_norm_eps", 1e-6)}});
  const json mlp{{"kind", "swiglu"},
                 {"d_ff", config.integer("intermediate_size", std::nullopt)},
                 {"activation", activation_of(config)},
                 {"bias", !is_qwen && config.flag("mlp_bias", false)}};
  const std::vector<bool> windowed = is_qwen ? windowed_layers(config) : std::vector<bool>(config.layers(), false);
  for (std::size_t block = 0; block < windowed.size(); ++block) {
    json own = mixer;
    if (windowed[block]) own["window"] = config.integer("sliding_window", std::nullopt);
    match_norms(plan, block);
    match_attention(plan, block, own);
    match_mlp(plan, block, mlp, "swiglu.");
    plan.add_block({{"mixer", own}, {"mlp", mlp}});
  }
  return plan;
}

ModelPlan plan_lfm2(const ConfigFields& config) {
  const double eps = config.number("norm_eps", 1e-5);
  json filled = config.fields();
  filled["tie_word_embeddings"] = config.flag("tie_embedding", config.flag("tie_word_embeddings", true));
  if (!config.has("rope_theta")) filled["rope_theta"] = config.number("theta", 1e6);
  const ConfigFields fields = config.filled(filled);
  ModelPlan plan(fields, eps, "model.", "embedding_norm.weight", "embed_tokens.weight");
  json attention = attention_mixer(config);
  read_rotary(fields, attention);
  attention.update({{"qk_norm", "head"}, {"norm_eps", eps}});
  const json conv{{"kind", "short_conv"},
                  {"conv_size", config.integer("conv_L_cache", 3)},
                  {"bias", config.flag("conv_bias", false)}};
  const json mlp{{"kind", "swiglu"}, {"d_ff", mlp_width(config)}};
  const bool by_number = !config.has("layer_types") && config.has("full_attn_idxs");
  for (std::size_t block = 0;
       const std::string& word : by_number ? listed_mixers(config, "full_attn_idxs", 0, config.layers(), "conv")
                                           : mixers_of(config, "conv", "full_attention", 1)) {
    const bool attends = word == "full_attention";
    match_norms(plan, block, "operator_norm", "ffn_norm");
    if (attends) {
      match_attention(plan, block, attention, {.q_norm = "q_layernorm", .k_norm = "k_layernorm", .out = "out_proj"});
    } else {
      match_names(plan, block, "short_conv.", "conv.", "in_proj.weight conv.weight out_proj.weight");
      if (conv["bias"].get<bool>())
        match_names(plan, block, "short_conv.", "conv.", "in_proj.bias conv.bias out_proj.bias");
    }
    match_mlp(plan, block, mlp, "swiglu.", {"feed_forward.", "w1", "w3", "w2"});
    plan.add_block({{"mixer", attends ? attention : conv}, {"mlp", mlp}});
    ++block;
  }
  return plan;
}

}  // namespace afterglow
