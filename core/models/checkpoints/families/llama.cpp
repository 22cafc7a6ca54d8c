// Plain transformers: llama and qwen3.
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

}  // namespace afterglow
