// zamba2: Mamba-2, and in front of it at some depths one of few transformer blocks that share their weights; they read
// the embedding again, and each use has its own adapters and its own map of the answer.
#include <algorithm>
#include <cmath>
#include <utility>

#include "core/models/checkpoints/families/family.h"
#include "core/models/checkpoints/mamba2_fields.h"

namespace afterglow {
namespace {

/// The parts of a shared block; the number of the use in `adapter` is 0.
struct SharedParts {
  json attention, mlp;
};

SharedParts shared_parts(const ConfigFields& config) {
  SharedParts parts;
  const std::int64_t width = config.integer("hidden_size", std::nullopt),
                     heads = config.integer("num_attention_heads", 32),
                     keys = config.integer("num_key_value_heads", heads);
  if (config.integer("attention_hidden_size", 2 * width) != 2 * width)
    config.refuse("attention_hidden_size", "the attention reads the stream and the embedding: twice hidden_size");
  const std::int64_t head = config.integer("attention_head_dim", std::max<std::int64_t>(1, 2 * width / heads));
  parts.attention = {{"kind", "attention"}, {"n_heads", heads},  {"n_kv_heads", keys},
                     {"head_dim", head},    {"use_rope", false}, {"scale", std::sqrt(2.0 / static_cast<double>(head))}};
  if (config.flag("use_mem_rope", false)) {
    if (config.flag("use_long_context", false) && !config.text("transformers_version", "").starts_with("5."))
      config.refuse("use_long_context", "the position code that transformers stretched before 5 is not computed here");
    parts.attention["use_rope"] = true;
    read_rotary(config, parts.attention);
  }
  const json adapter{{"rank", config.integer("adapter_rank", 128)}, {"use", 0}};
  if (config.flag("use_shared_attention_adapter", false)) parts.attention["adapter"] = adapter;
  parts.mlp = {{"kind", "swiglu"},
               {"adapter", adapter},
               {"d_ff", config.integer("intermediate_size", 4 * width)},
               {"activation", activation_of(config, "hidden_act", "gelu")},
               {"bias", config.flag("add_bias_linear", false)}};
  return parts;
}

/// Matches the tensors of shared block `shared` and of its use number `use`, in block `block`.
void match_shared(ModelPlan& plan, std::size_t block, std::int64_t shared, std::int64_t use, const SharedParts& parts) {
  const std::string ours = "shared_block.shared_weights." + std::to_string(shared) + ".",
                    theirs = "shared_transformer.", adapter = "adapter." + std::to_string(use) + ".",
                    list = "_adapter_list." + std::to_string(use) + ".", both = theirs + "feed_forward.gate_up_proj";
  const std::int64_t inner = parts.mlp["d_ff"];
  match_names(plan, block, ours, theirs,
              "attention_norm.weight=input_layernorm.weight mlp_norm.weight=pre_ff_layernorm.weight");
  match_attention(plan, block, parts.attention, {.base = theirs + "self_attn.", .ours = ours + "attention."});
  const auto match_both = [&](const std::string& gate, const std::string& up, const std::string& name) {
    plan.match(block, ours + "swiglu." + gate, both + name).take({.width = inner}, 2 * inner);
    plan.match(block, ours + "swiglu." + up, both + name).take({.width = inner, .first = inner}, 2 * inner);
  };
  for (const std::string part : {".weight", ".bias"}) {
    if (part == ".bias" && !parts.mlp["bias"].get<bool>()) continue;
    match_both("w_gate" + part, "w_up" + part, part);
    plan.match(block, ours + "swiglu.w_down" + part, theirs + "feed_forward.down_proj" + part);
  }
  plan.match(block, ours + "swiglu." + adapter + "up_down.weight", both + list + "0.weight");
  match_both(adapter + "gate.weight", adapter + "up.weight", list + "1.weight");
  if (!parts.attention.contains("adapter")) return;
  const json& a = parts.attention;
  const std::int64_t width = a["head_dim"], turned = a["use_rope"] ? a.value("rope_width", width) : 0;
  for (const std::string name : {"q", "k", "v"}) {
    const std::string here = ours + "attention." + adapter + name, there = theirs + "self_attn.linear_" + name + list;
    plan.match(block, here + "_down.weight", there + "0.weight");
    plan.match(block, here + ".weight", there + "1.weight")
        .take({.heads = a[name == "q" ? "n_heads" : "n_kv_heads"], .width = width, .turned = name == "v" ? 0 : turned});
  }
}

/// Keeps of the shared parameters that were matched since `begin` those that are new, whose tensors may be in any of
/// the layers `uses`.
void keep_new(ModelPlan& plan, std::size_t begin, std::size_t block, const std::vector<std::size_t>& uses) {
  const auto layer = [](std::size_t number) { return "layers." + std::to_string(number) + "."; };
  const std::string here = layer(block), first = layer(uses.front());
  const std::vector<WeightMatch> matched(plan.weights.begin() + static_cast<std::ptrdiff_t>(begin), plan.weights.end());
  plan.weights.resize(begin);
  for (WeightMatch match : matched) {
    const std::string known = first + match.parameter.substr(here.size());
    if (std::ranges::find(plan.weights, known, &WeightMatch::parameter) != plan.weights.end()) continue;
    const std::vector<std::string> own = std::exchange(match.names, {});
    for (const std::size_t other : uses) {
      for (std::string name : own) match.names.push_back(name.replace(name.find(here), here.size(), layer(other)));
    }
    plan.weights.push_back(match);
  }
}

}  // namespace

ModelPlan plan_zamba2(const ConfigFields& config) {
  const double eps = config.number("rms_norm_eps", 1e-5);
  const bool ties = config.flag("tie_word_embeddings", true);
  json outer = config.fields();
  outer["tie_word_embeddings"] = ties;
  ModelPlan plan(config.filled(outer), eps, "model.", "final_layernorm.weight", "embed_tokens.weight");
  json mamba2 = hybrid_mamba2_mixer(config,
                                    {.heads = "n_mamba_heads",
                                     .head = "mamba_headdim",
                                     .groups = "mamba_ngroups",
                                     .bias = "add_bias_linear",
                                     .conv_bias = "",
                                     .activation = ""},
                                    expanded_width(config), 1e-5);
  limit_steps(mamba2, config.number("time_step_min", 1e-3), 1e30);  // time_step_limit has no effect there
  const SharedParts parts = shared_parts(config);
  if (parts.attention["use_rope"] && config.flag("use_long_context", false))
    plan.notes.emplace_back(
        "\"use_long_context\" changes nothing in transformers from 5 on, nor here; earlier ones stretched the position "
        "code");
  const std::int64_t count = config.integer("num_mem_blocks", 1);
  const std::vector<std::string> words = config.layer_words("layers_block_type");
  if (words.empty()) config.refuse("layers_block_type", "a word for each layer is expected");
  std::vector<std::size_t> hybrids;
  for (std::size_t block = 0; block < words.size(); ++block) {
    if (words[block] == "hybrid") hybrids.push_back(block);
  }
  std::int64_t use = 0;
  for (std::size_t block = 0; block < words.size(); ++block) {
    if (words[block] == "mamba" || words[block] == "linear_attention") {
      plan.match(block, "mixer_norm.weight", "input_layernorm.weight");
      match_mamba2(plan, block, mamba2, "mamba2.", "mamba.");
      plan.add_block({{"mixer", mamba2}});
      continue;
    }
    if (words[block] != "hybrid") config.refuse("layers_block_type", "mamba and hybrid are computed here");
    // Without a tied head version 5 ties no block to another; earlier files hold each shared block once.
    const std::int64_t shared = ties ? use % count : use;
    std::vector<std::size_t> uses;
    if (!ties) uses.push_back(block);
    for (auto i = static_cast<std::size_t>(use % count); i < hybrids.size(); i += static_cast<std::size_t>(count))
      uses.push_back(hybrids[i]);
    const std::size_t begin = plan.weights.size();
    match_shared(plan, block, shared, use, parts);
    keep_new(plan, begin, block, uses);
    match_names(plan, block, "shared_block.", "",
                "out.weight=linear.weight norm.weight=mamba_decoder.input_layernorm.weight");
    match_mamba2(plan, block, mamba2, "shared_block.mamba2.", "mamba_decoder.mamba.");
    json attention = parts.attention, mlp = parts.mlp;
    if (attention.contains("adapter")) attention["adapter"]["use"] = use;
    mlp["adapter"]["use"] = use++;
    plan.add_block({{"mixer",
                     {{"kind", "shared_block"},
                      {"block", shared},
                      {"norm_eps", eps},
                      {"attention", attention},
                      {"mlp", mlp},
                      {"mixer", mamba2}}}});
  }
  return plan;
}

}  // namespace afterglow
