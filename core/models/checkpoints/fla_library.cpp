// flash-linear-attention: mamba2, gated_deltanet, gla and delta_net, with attention in some layers. All names of that
// library are in this file and in fla_mixers.cpp.
#include <algorithm>
#include <cmath>
#include <map>

#include "core/io/error.h"
#include "core/models/checkpoints/families/family.h"
#include "core/models/checkpoints/fla_mixers.h"
#include "core/models/checkpoints/mamba2_fields.h"
#include "core/models/checkpoints/model_plan.h"

namespace afterglow {

namespace {

using nlohmann::json;

constexpr Mamba2Names mamba2_names{.norm_eps = "norm_eps", .step_limit = "dt_limit", .group_default = 1};

bool knows(const json& config) {
  const json type = config.value("model_type", json());
  return type == "mamba2" ? is_mamba2_of_fla(config) : find_fla_mixer(type) != nullptr;
}

ModelPlan plan_mamba2(const ConfigFields& config) {
  if (config.flag("norm_before_gate", false))
    config.refuse("norm_before_gate", "only the norm behind the gate is computed here; there is no way to convert it");
  if (config.flag("D_has_hdim", false))
    config.refuse("D_has_hdim", "only one D for each head is computed here; there is no way to convert it");
  // Up to 0.4.2 the library used the name of transformers for the limit, and at first for eps, too.
  const bool is_old = config.has("time_step_limit") && !config.has("dt_limit") && !config.has("rmsnorm");
  Mamba2Names names = mamba2_names;
  if (is_old) names.step_limit = "time_step_limit";
  if (config.has("layer_norm_epsilon")) names.norm_eps = "layer_norm_epsilon";
  ModelPlan plan(config, config.number(names.norm_eps, 1e-5), "backbone.", "norm_f.weight");
  json mixer = mamba2_mixer(config, names);
  mixer["rmsnorm"] = config.flag("rmsnorm", true);
  mixer["norm_per_group"] = mixer["ngroups"].get<std::int64_t>() > 1;
  if (is_old)
    take_gated_norm(plan, mixer, false,
                    "config.json names its fields as flash-linear-attention before 0.5 did; with \"dt_limit\" in the "
                    "place of \"time_step_limit\" it is of each group");
  add_mamba2_blocks(plan, config, mixer);
  return plan;
}

/// "attn": one description of attention or several, each with the layers that have it.
std::map<std::int64_t, json> attention_layers(const ConfigFields& config) {
  std::map<std::int64_t, json> layers;
  if (!config.has("attn")) return layers;
  const json& field = config.fields()["attn"];
  const json all = field.is_array() ? field : json::array({field});
  for (json one : all) {
    if (!one.is_object() || !one.contains("layers") || !one["layers"].is_array())
      config.refuse("attn", "an object with \"layers\" and \"num_heads\" is expected; correct it");
    for (const json& layer : one["layers"]) {
      const std::int64_t index = layer.is_number_integer() ? layer.get<std::int64_t>() : -1;
      if (index < 0 || index >= config.layers() || layers.contains(index))
        config.refuse("attn", "layer " + layer.dump() + " is no layer of the model, or there twice; correct it");
      layers[index] = one;
    }
  }
  return layers;
}

json attention_mixer(ModelPlan& plan, const ConfigFields& config, json attn) {
  for (const char* field : {"num_kv_heads", "window_size", "rope_theta", "qkv_bias"}) {
    if (attn.contains(field) && attn[field].is_null()) attn.erase(field);
  }
  if (attn.contains("window_size"))
    config.refuse("attn", "attention in a sliding window is not computed here; a model without window_size is");
  const ConfigFields own(attn, config.where() + ", attn");
  const std::int64_t heads = own.integer("num_heads", std::nullopt);
  const json mixer{{"kind", "attention"},
                   {"n_heads", heads},
                   {"n_kv_heads", own.integer("num_kv_heads", heads)},
                   {"rope_base", own.number("rope_theta", 10000.0)},
                   {"qkv_bias", own.flag("qkv_bias", false)}};
  plan.note_unread(own, "layers");
  return mixer;
}

/// The width of the MLP: given, or two thirds of hidden_ratio times that of the model, rounded up to 256.
std::int64_t mlp_width(const ConfigFields& config) {
  if (config.has("intermediate_size")) return config.integer("intermediate_size", std::nullopt);
  const double wanted =
      static_cast<double>(config.integer("hidden_size", std::nullopt)) * config.number("hidden_ratio", 4.0) * 2 / 3;
  constexpr std::int64_t step = 256;
  return (static_cast<std::int64_t>(wanted) + step - 1) / step * step;
}

ModelPlan plan(const ConfigFields& config) {
  const FlaMixer* kind = find_fla_mixer(config.fields().value("model_type", json()));
  if (kind == nullptr) return plan_mamba2(config);
  if (config.has("attnres_block_size"))
    config.refuse("attnres_block_size", "attention over residuals is not computed here; a model without it is");
  if (config.text("hidden_act", "swish") != "swish")
    config.refuse("hidden_act", "only \"swish\" is computed here; there is no way to convert it");
  ModelPlan plan(config, config.number("norm_eps", 1e-6), "model.", "norm.weight");
  const json mlp{{"kind", "swiglu"}, {"d_ff", mlp_width(config)}};
  const json own = kind->mixer(config);
  const std::map<std::int64_t, json> attention = attention_layers(config);
  const std::int64_t layers = config.layers();
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    const auto block = static_cast<std::size_t>(layer);
    const auto hybrid = attention.find(layer);
    const json mixer = hybrid == attention.end() ? own : attention_mixer(plan, config, hybrid->second);
    match_norms(plan, block, "attn_norm", "mlp_norm");
    hybrid == attention.end() ? kind->match(plan, block, config, mixer)
                              : match_attention(plan, block, mixer, {.base = "attn."});
    match_mlp(plan, block, mlp, "swiglu.");
    plan.add_block({{"mixer", mixer}, {"mlp", mlp}});
  }
  return plan;
}

[[noreturn]] void refuse_model(const std::string& what) {
  throw Error(ExitCode::bad_input, "flash-linear-attention has no model " + what + "; export with --format npz");
}

/// The field "attn" for the layers with attention.
json attn_of(const std::vector<json>& blocks) {
  std::vector<json> found;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const json& mixer = blocks[i]["mixer"];
    if (mixer.value("kind", "") != "attention") continue;
    if (!mixer.value("use_rope", true)) refuse_model("with attention without rotary position code");
    json one{{"num_heads", mixer["n_heads"]},
             {"num_kv_heads", mixer.value("n_kv_heads", mixer["n_heads"])},
             {"rope_theta", mixer.value("rope_base", 10000.0)},
             {"qkv_bias", mixer.value("qkv_bias", false)},
             {"layers", json::array()}};
    const auto same = std::ranges::find_if(found, [&](json known) {
      known["layers"] = json::array();
      return known == one;
    });
    json& place = same == found.end() ? found.emplace_back(one) : *same;
    place["layers"].push_back(i);
  }
  if (found.empty()) return nullptr;
  return found.size() == 1 ? found.front() : json(found);
}

json config_of(const json& model, const json&, std::vector<std::string>& notes) {
  if (model.contains("memory")) refuse_model("with a memory of training");
  const std::vector<json> blocks = blocks_of(model);
  json own;
  for (const json& block : blocks) {
    const std::string kind = block.contains("mixer") ? block["mixer"].value("kind", "") : "none";
    if (kind == "attention") continue;
    if (!own.is_null() && own != block["mixer"]) refuse_model("whose layers differ as here");
    if (kind == "none") refuse_model("with a block that mixes no tokens");
    own = block["mixer"];
  }
  if (own.is_null()) refuse_model("of attention alone among those that are written here");
  if (own["kind"] == "mamba2") {
    const json mixer = common_mamba2_mixer(model, "flash-linear-attention");
    const bool by_group = mixer.value("norm_per_group", false), groups = mixer.value("ngroups", 1) > 1;
    if (mixer.value("rmsnorm", true) && by_group != groups)
      refuse_model("with groups whose norm is taken over all columns");
    json config = mamba2_config(model, mixer, mamba2_names);
    config["rmsnorm"] = mixer.value("rmsnorm", true);
    config["architectures"] = {"Mamba2ForCausalLM"};
    return config;
  }
  const FlaMixer* kind = find_fla_mixer_of(own["kind"]);
  if (kind == nullptr) refuse_model("of " + own["kind"].get<std::string>());
  json config = outer_config(model, static_cast<std::int64_t>(blocks.size()));
  for (const json& block : blocks) {
    if (!block.contains("mlp") || block["mlp"].value("kind", "") != "swiglu") refuse_model("without swiglu MLPs");
    if (block["mlp"] != blocks.front()["mlp"]) refuse_model("whose MLPs differ");
  }
  config["intermediate_size"] = blocks.front()["mlp"]["d_ff"];
  config["hidden_act"] = "swish";
  config["norm_eps"] = model.value("norm_eps", 1e-5);
  if (own.value("norm_eps", 1e-5) != config["norm_eps"]) refuse_model("whose layers have another norm_eps than it has");
  config["attn"] = attn_of(blocks);
  kind->describe(own, config, notes);
  config["model_type"] = kind->model_type;
  config["architectures"] = {kind->architecture};
  return config;
}

}  // namespace

CheckpointLibrary fla_library() {
  return {
      "fla",
      "mamba2, gated_deltanet, gla, delta_net (flash-linear-attention)",
      knows,
      plan,
      config_of,
      "A_init_range attn_mode chunk_size conv_init dt_init_floor dt_max dt_min fuse_cross_entropy "
      "fuse_linear_cross_entropy fuse_norm fuse_swiglu hidden_ratio rescale_prenorm_residual residual_in_fp32 "
      "rms_norm time_step_floor time_step_max time_step_min time_step_rank use_gk use_gv use_l2warp use_output_norm"};
}

}  // namespace afterglow
