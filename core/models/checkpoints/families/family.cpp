// The list of families, and the parts that they share.
#include "core/models/checkpoints/families/family.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>
#include <sstream>

namespace afterglow {

// Each is at the end of its own file.
ModelPlan plan_plain(const ConfigFields&), plan_qwen3_5(const ConfigFields&), plan_qwen3_5_text(const ConfigFields&),
    plan_qwen3_next(const ConfigFields&), plan_olmo_hybrid(const ConfigFields&), plan_kimi_linear(const ConfigFields&),
    plan_lfm2(const ConfigFields&), plan_mamba(const ConfigFields&), plan_jamba(const ConfigFields&),
    plan_bamba(const ConfigFields&), plan_granite(const ConfigFields&), plan_nemotron_h(const ConfigFields&),
    plan_falcon_h1(const ConfigFields&), plan_zamba2(const ConfigFields&);

PlanFamily find_family(const json& config) {
  static const std::map<json, PlanFamily> families{{"llama", plan_plain},
                                                   {"qwen3", plan_plain},
                                                   {"qwen3_5", plan_qwen3_5},
                                                   {"qwen3_5_text", plan_qwen3_5_text},
                                                   {"qwen3_next", plan_qwen3_next},
                                                   {"olmo_hybrid", plan_olmo_hybrid},
                                                   {"kimi_linear", plan_kimi_linear},
                                                   {"lfm2", plan_lfm2},
                                                   {"mamba", plan_mamba},
                                                   {"falcon_mamba", plan_mamba},
                                                   {"jamba", plan_jamba},
                                                   {"bamba", plan_bamba},
                                                   {"granitemoehybrid", plan_granite},
                                                   {"nemotron_h", plan_nemotron_h},
                                                   {"falcon_h1", plan_falcon_h1},
                                                   {"zamba2", plan_zamba2}};
  const auto found = families.find(config.value("model_type", json()));
  return found == families.end() ? nullptr : found->second;
}

std::string activation_of(const ConfigFields& config, const char* name, const char* fallback) {
  static const std::map<std::string, std::string> words{
      {"silu", "silu"}, {"swish", "silu"},         {"gelu", "gelu"},  {"gelu_pytorch_tanh", "gelu_tanh"},
      {"relu", "relu"}, {"gelu_new", "gelu_tanh"}, {"relu2", "relu2"}};
  const auto found = words.find(config.text(name, fallback));
  if (found == words.end())
    config.refuse(name, "silu, gelu, gelu_pytorch_tanh, gelu_new, relu and relu2 are computed here");
  return found->second;
}

void require_silu(const ConfigFields& config) {
  if (activation_of(config) != "silu") config.refuse("hidden_act", "silu is computed here, also in the convolutions");
}

namespace {

/// The ends of YaRN's ramp over the pairs of `width` columns, between `fast` and `slow` turns in `length` positions.
std::pair<double, double> yarn_ramp(const ConfigFields& rope, double base, double width, double length) {
  const auto pair_of = [&](double turns) {
    return width * std::log(length / (turns * 2 * std::numbers::pi)) / (2 * std::log(base));
  };
  double low = pair_of(rope.number("beta_fast", 32)), high = pair_of(rope.number("beta_slow", 1));
  if (rope.flag("truncate", true)) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, width - 1);
  constexpr double min_ramp = 0.001;
  return {low, high != low ? high : low + min_ramp};  // as in the library, the ramp may fall
}

double yarn_gain(const ConfigFields& rope, double factor) {
  const auto gain = [&](double share) { return factor <= 1 ? 1.0 : 0.1 * share * std::log(factor) + 1; };
  if (rope.has("attention_factor")) return rope.number("attention_factor", 1);
  if (rope.number("mscale", 0) != 0 && rope.number("mscale_all_dim", 0) != 0)
    return gain(rope.number("mscale", 1)) / gain(rope.number("mscale_all_dim", 1));
  return gain(1);
}

}  // namespace

void read_rotary(const ConfigFields& config, json& mixer, double partial) {
  ConfigFields rope = config.part(config.has("rope_parameters") ? "rope_parameters" : "rope_scaling");
  if (rope.fields().contains("full_attention") && rope.fields()["full_attention"].is_object())
    rope = rope.part("full_attention");
  const double base = rope.number("rope_theta", config.number("rope_theta", 10000.0)),
               head = mixer["head_dim"].get<double>();
  if (partial < 1) partial = rope.number("partial_rotary_factor", config.number("partial_rotary_factor", partial));
  const auto width = static_cast<std::int64_t>(head * partial);
  if (width < 0 || width > mixer["head_dim"] || width % 2 != 0)
    config.refuse("partial_rotary_factor", "an even number of the columns of a head must turn; correct it");
  mixer["rope_base"] = base;
  if (width == 0) mixer["use_rope"] = false;
  if (width > 0 && width < mixer["head_dim"]) mixer["rope_width"] = width;
  const std::string type = rope.text("rope_type", rope.text("type", "default").c_str());
  if (type == "default" || type == "mrope") return;  // sections of mrope turn alike where a token has one position
  if (type != "linear" && type != "llama3" && type != "yarn")
    rope.refuse(rope.has("rope_type") ? "rope_type" : "type",
                "the types default, linear, llama3 and yarn are computed here");
  const double length =
      rope.number("original_max_position_embeddings",
                  config.number("original_max_position_embeddings", config.number("max_position_embeddings", 2048)));
  const double factor = rope.number("factor", config.number("max_position_embeddings", length) / length);
  json scaling{{"type", type}, {"factor", factor}};
  if (type == "llama3") {
    scaling["low"] = rope.number("low_freq_factor", 1);
    scaling["high"] = rope.number("high_freq_factor", 4);
    scaling["original"] = length;
  } else if (type == "yarn") {
    const auto [low, high] = yarn_ramp(rope, base, static_cast<double>(width), length);
    scaling["low"] = low;
    scaling["high"] = high;
    scaling["gain"] = yarn_gain(rope, factor);
  }
  mixer["rope_scaling"] = scaling;
}

json attention_mixer(const ConfigFields& config) {
  const std::int64_t heads = config.integer("num_attention_heads", std::nullopt),
                     width = config.integer("hidden_size", std::nullopt);
  json mixer{{"kind", "attention"},
             {"n_heads", heads},
             {"n_kv_heads", config.integer("num_key_value_heads", heads)},
             {"head_dim", config.integer("head_dim", std::max<std::int64_t>(1, width / heads))}};
  const bool has_biases = config.flag("attention_bias", false);
  mixer["qkv_bias"] = has_biases;
  mixer["o_bias"] = has_biases;
  return mixer;
}

void match_names(ModelPlan& plan, std::size_t block, const std::string& ours, const std::string& theirs,
                 const std::string& names) {
  std::istringstream words(names);
  for (std::string word; words >> word;)
    plan.match(block, ours + word.substr(0, word.find('=')), theirs + word.substr(word.find('=') + 1));
}

void match_attention(ModelPlan& plan, std::size_t block, const json& mixer, const AttentionNames& names) {
  const std::int64_t heads = mixer["n_heads"], keys = mixer["n_kv_heads"],
                     width = mixer.value("head_dim", plan.model["d_model"].get<std::int64_t>() / heads),
                     turned = mixer.value("use_rope", true) ? mixer.value("rope_width", width) : 0;
  const bool is_gated = mixer.value("output_gate", false);
  const std::int64_t stride = is_gated ? 2 * width : width;
  const auto match = [&](const std::string& ours, const std::string& theirs) -> WeightMatch& {
    return plan.match(block, names.ours + ours, names.base + theirs);
  };
  const auto match_parts = [&](const std::string& part) {
    match("q_proj." + part, "q_proj." + part)
        .take({.heads = heads, .width = width, .stride = stride, .turned = turned}, heads * stride);
    match("k_proj." + part, "k_proj." + part).take({.heads = keys, .width = width, .turned = turned});
    match("v_proj." + part, "v_proj." + part);
  };
  match_parts("weight");
  const bool has_biases = mixer.value("qkv_bias", false);
  if (has_biases) match_parts("bias");
  for (const char* part : {"weight", "bias"}) {
    if (is_gated && (has_biases || std::string(part) == "weight"))
      match(std::string("gate_proj.") + part, std::string("q_proj.") + part)
          .take({.heads = heads, .width = width, .stride = stride, .first = width}, heads * stride);
  }
  const std::string norm = mixer.value("qk_norm", "none");
  if (norm != "none") {
    const auto heads_of_norm = [&](std::int64_t count) { return norm == "whole" ? count : 1; };
    match("q_norm.weight", names.q_norm + std::string(".weight"))
        .take({.heads = heads_of_norm(heads), .width = width, .turned = turned});
    match("k_norm.weight", names.k_norm + std::string(".weight"))
        .take({.heads = heads_of_norm(keys), .width = width, .turned = turned});
  }
  match("o_proj.weight", names.out + std::string(".weight"));
  if (mixer.value("o_bias", false)) match("o_proj.bias", names.out + std::string(".bias"));
}

void match_mlp(ModelPlan& plan, std::size_t block, const json& mlp, const std::string& ours, const MlpNames& names) {
  for (const char* part : {".weight", ".bias"}) {
    if (std::string(part) == ".bias" && !mlp.value("bias", false)) continue;
    const auto match = [&](const char* own, const char* theirs) {
      plan.match(block, ours + own + part, names.base + theirs + part);
      if (!names.other.empty()) plan.also_called(block, names.other + theirs + part);
    };
    if (mlp.value("kind", "swiglu") == "swiglu" && mlp.value("gated", true)) match("w_gate", names.gate);
    match("w_up", names.up);
    match("w_down", names.down);
  }
}

void match_experts(ModelPlan& plan, std::size_t block, const json& experts, const ExpertNames& names) {
  const json own{{"kind", experts.value("gated", true) ? "swiglu" : "mlp"}};
  plan.match(block, "experts.router.weight", names.base + names.router);
  if (experts.value("correction", false)) plan.match(block, "experts.router.correction", names.base + names.correction);
  for (std::int64_t e = 0; e < experts["experts"]; ++e) {
    MlpNames expert = names.expert;
    expert.base = names.base + names.experts + std::to_string(e) + "." + expert.base;
    match_mlp(plan, block, own, "experts." + std::to_string(e) + ".", expert);
  }
  if (experts.value("shared_ff", 0) == 0) return;
  MlpNames shared = names.shared_mlp;
  shared.base = names.base + names.shared + shared.base;
  match_mlp(plan, block, own, "experts.shared.", shared);
  if (experts.value("shared_gate", false))
    plan.match(block, "experts.shared_gate.weight", names.base + names.shared_gate);
}

bool is_listed(const ConfigFields& config, const char* name, std::int64_t layer) {
  if (!config.has(name)) return false;
  const json& list = config.fields()[name];
  if (!list.is_array()) config.refuse(name, "a list of layers is expected; correct it");
  return std::ranges::any_of(list, [&](const json& one) { return one == layer; });
}

json delta_net_mixer(const ConfigFields& config, double norm_eps) {
  const std::int64_t heads = config.integer("linear_num_value_heads", 32),
                     keys = config.integer("linear_num_key_heads", 16);
  if (heads % keys != 0)
    config.refuse("linear_num_value_heads", "it must be a multiple of linear_num_key_heads; correct one of the two");
  return {{"kind", "gated_deltanet"},
          {"H", heads},
          {"query_heads", keys},
          {"key_heads", keys},
          {"Dk", config.integer("linear_key_head_dim", 128)},
          {"Dv", config.integer("linear_value_head_dim", 128)},
          {"conv_size", config.integer("linear_conv_kernel_dim", 4)},
          {"use_short_conv", true},
          {"qk_norm", "l2"},
          {"norm_eps", norm_eps}};
}

void match_norms(ModelPlan& plan, std::size_t block, const std::string& mixer, const std::string& mlp) {
  match_names(plan, block, "", "", "mixer_norm.weight=" + mixer + ".weight mlp_norm.weight=" + mlp + ".weight");
}

std::vector<std::string> mixers_of(const ConfigFields& config, const char* mixer, const char* attention,
                                   std::int64_t interval) {
  std::vector<std::string> words = config.layer_words("layer_types");
  if (words.empty())
    for (std::int64_t i = 1; i <= config.layers(); ++i) words.emplace_back(i % interval == 0 ? attention : mixer);
  for (const std::string& word : words) {
    if (word != mixer && word != attention)
      config.refuse("layer_types", mixer, " and ", attention, " are expected; correct it");
  }
  return words;
}

std::vector<std::string> listed_mixers(const ConfigFields& lists, const char* name, std::int64_t first,
                                       std::int64_t layers, const char* mixer) {
  std::vector<std::string> words(static_cast<std::size_t>(layers), mixer);
  for (const json& layer : lists.fields()[name]) {
    if (!layer.is_number_integer() || layer < first || layer >= first + layers)
      lists.refuse(name, "a list of layers, counted from ", first, ", is expected; correct it");
    words[static_cast<std::size_t>(layer.get<std::int64_t>() - first)] = "full_attention";
  }
  return words;
}

}  // namespace afterglow
