// flash-linear-attention: mamba2, gated_deltanet, kda, gla and delta_net, with attention in some layers. All names of
// that library are in this file.
#include <algorithm>
#include <cmath>
#include <map>

#include "core/io/error.h"
#include "core/io/named.h"
#include "core/models/checkpoints/families/family.h"
#include "core/models/checkpoints/mamba2_fields.h"
#include "core/models/checkpoints/model_plan.h"

namespace afterglow {
namespace {

/// A token mixer that has a model class of its own.
struct FlaMixer {
  const char *model_type, *kind, *architecture;  ///< kind: Afterglow's layer
  /// The layer's configuration, as in a recipe.
  nlohmann::json (*mixer)(const ConfigFields& config);
  const char* tensors;  ///< its own in one block, next to those that all have
  /// Writes the fields of a layer into a config.json. Throws Error(bad_input) for what the library does not have.
  void (*describe)(const nlohmann::json& mixer, nlohmann::json& config, std::vector<std::string>& notes);
  /// Matches a tensor whose name depends on config.json.
  void (*match_more)(ModelPlan& plan, std::size_t block, const ConfigFields& config, const json& mixer) = nullptr;
};

[[noreturn]] void has_no(const std::string& what) {
  throw BadInput("flash-linear-attention has no ", what, "; export with --format npz");
}

/// size * factor, which must be a whole number of `parts`.
std::int64_t expanded(const ConfigFields& config, std::int64_t size, const char* factor, double fallback,
                      std::int64_t parts) {
  const double wanted = static_cast<double>(size) * config.number(factor, fallback);
  const auto whole = static_cast<std::int64_t>(wanted);
  if (!(wanted >= 1) || wanted > 1e9 || std::abs(wanted - static_cast<double>(whole)) > 1e-5 * wanted ||
      whole % parts != 0)
    config.refuse(factor, "the columns that it makes do not divide into heads; correct it");
  return whole / parts;
}

/// The fields that the three share, with the defaults of each.
json common_mixer(const ConfigFields& config, const char* kind, bool convolves, bool gate, const char* gate_field) {
  json mixer{{"kind", kind},
             {"conv_size", config.integer("conv_size", 4)},
             {"use_short_conv", config.flag("use_short_conv", convolves)},
             {"use_gate", config.flag(gate_field, gate)},
             {"norm_eps", config.number("norm_eps", 1e-6)}};
  const std::string activation = config.text("output_gate_activation", "swish");
  if (activation == "sigmoid") {
    mixer["gate_activation"] = activation;
  } else if (activation != "swish" && activation != "silu") {
    config.refuse("output_gate_activation", "swish, silu and sigmoid are computed here; there is no way to convert it");
  }
  return mixer;
}

/// Matches projections, convolutions and gates whose names all share, and those of one.
void match_own(ModelPlan& plan, std::size_t block, const json& mixer, std::string names) {
  if (mixer.value("use_beta", false)) names += " b_proj.weight";
  names += " q_proj.weight k_proj.weight v_proj.weight o_proj.weight";
  if (mixer["use_short_conv"].get<bool>()) names += " q_conv1d.weight k_conv1d.weight v_conv1d.weight";
  if (mixer["use_gate"].get<bool>() && !mixer.contains("output_gate_rank")) names += " g_proj.weight";
  match_names(plan, block, mixer["kind"].get<std::string>() + ".", "attn.", names);
}

void describe_common(const json& mixer, json& config, const char* gate_field) {
  const std::int64_t taps = mixer.value("conv_size", std::int64_t{4});
  config["conv_size"] = taps;
  config["use_short_conv"] = mixer.value("use_short_conv", taps != 1);
  config[gate_field] = mixer.value("use_gate", true);
  if (mixer.value("gate_activation", "silu") == "sigmoid") config["output_gate_activation"] = "sigmoid";
}

/// Sizes of Afterglow's layer, with the defaults of its configuration.
struct Sizes {
  std::int64_t width, heads, keys, values;
  Sizes(const json& mixer, const json& config)
      : width(config.at("hidden_size")),
        heads(mixer.value("H", std::int64_t{1})),
        keys(mixer.value("Dk", std::max<std::int64_t>(1, width / heads))),
        values(mixer.value("Dv", keys)) {}
};

/// expand such that the library's int(hidden_size * expand) is `columns`.
double expansion(std::int64_t columns, std::int64_t width) {
  return static_cast<double>(columns) / static_cast<double>(width);
}

void require_unit_keys(const json& mixer, std::vector<std::string>& notes) {
  const std::string norm = mixer.value("qk_norm", "unit");
  if (norm == "none") has_no("layer that leaves queries and keys as long as they are");
  if (norm == "unit")
    notes.emplace_back(
        "queries and keys are divided by sqrt(|x|² + 1e-6) there, not by |x| + 1e-6 as here: answers differ by about "
        "that much");
}

/// gated_deltanet and kda, whose heads of values may be more than those of queries and keys.
json fading_delta_mixer(const ConfigFields& config, const char* kind, std::int64_t default_width,
                        std::int64_t default_heads, double default_expand) {
  json mixer = common_mixer(config, kind, true, true, "use_gate");
  const std::int64_t keys = config.integer("head_dim", default_width),
                     key_heads = config.integer("num_heads", default_heads),
                     heads = config.integer("num_v_heads", key_heads);
  if (heads % key_heads != 0)
    config.refuse("num_v_heads", "it must be a multiple of num_heads; correct one of the two");
  mixer["H"] = heads;
  mixer["Dk"] = keys;
  mixer["Dv"] = expanded(config, keys, "expand_v", default_expand, 1);
  mixer["query_heads"] = mixer["key_heads"] = key_heads;
  mixer["qk_norm"] = "l2";
  mixer["allow_neg_eigval"] = config.flag("allow_neg_eigval", false);
  return mixer;
}

void describe_gated_deltanet(const json& mixer, json& config, std::vector<std::string>& notes) {
  const Sizes sizes(mixer, config);
  const std::int64_t key_heads = mixer.value("key_heads", sizes.heads);
  if (mixer.value("query_heads", sizes.heads) != key_heads || mixer.value("value_heads", sizes.heads) != sizes.heads)
    has_no("layer with these numbers of heads");
  if (!mixer.value("use_beta", true) || mixer.value("feature_map", "identity") != "identity" ||
      !mixer.value("qk_silu", true) || !mixer.value("v_silu", true))
    has_no("layer " + mixer["kind"].get<std::string>() + " without β or SiLU, or with a feature map");
  require_unit_keys(mixer, notes);
  describe_common(mixer, config, "use_gate");
  config["num_heads"] = key_heads;
  config["num_v_heads"] = sizes.heads;
  config["head_dim"] = sizes.keys;
  config["expand_v"] = expansion(sizes.values, sizes.keys);
  config["allow_neg_eigval"] = mixer.value("allow_neg_eigval", false);
}

json kda_mixer(const ConfigFields& config) {
  if (config.has("lower_bound") || config.flag("safe_gate", false))
    config.refuse("lower_bound", "gates with a lower bound are not computed here; a model without it is");
  json mixer = fading_delta_mixer(config, "kda", 128, 16, 1.0);
  mixer["gate_rank"] = mixer["output_gate_rank"] = mixer["Dv"];
  mixer["output_gate_bias"] = true;
  mixer["gate_activation"] = "sigmoid";
  return mixer;
}

void describe_kda(const json& mixer, json& config, std::vector<std::string>& notes) {
  const std::int64_t values = Sizes(mixer, config).values;
  if (mixer.value("gate_rank", values) != values || mixer.value("output_gate_rank", 0) != values ||
      !mixer.value("output_gate_bias", false) || !mixer.value("use_gate", true) ||
      mixer.value("gate_activation", "silu") != "sigmoid")
    has_no("layer kda but with an output gate by sigmoid, with a bias, and gates of the rank of a head's values");
  describe_gated_deltanet(mixer, config, notes);
  config.erase("use_gate");
  config.erase("output_gate_activation");
}

json delta_net_mixer(const ConfigFields& config) {
  json mixer = common_mixer(config, "deltanet", true, false, "use_gate");
  const std::int64_t width = config.integer("hidden_size", std::nullopt), heads = config.integer("num_heads", 16);
  mixer["H"] = heads;
  mixer["Dk"] = expanded(config, width, "expand_k", 1.0, heads);
  mixer["Dv"] = expanded(config, width, "expand_v", 1.0, heads);
  if (config.text("qk_norm", "l2") != "l2")
    config.refuse("qk_norm", "only \"l2\" is computed here; there is no way to convert it");
  mixer["qk_norm"] = "l2";
  const std::string activation = config.text("qk_activation", "silu");
  if (activation != "silu" && activation != "identity" && activation != "relu" && activation != "elu")
    config.refuse("qk_activation", "silu, identity, relu and elu are computed here; there is no way to convert it");
  mixer["qk_silu"] = activation == "silu";
  mixer["feature_map"] = activation == "relu" ? "relu" : activation == "elu" ? "elu_plus_one" : "identity";
  mixer["use_beta"] = config.flag("use_beta", true);
  mixer["allow_neg_eigval"] = config.flag("allow_neg_eigval", false);
  return mixer;
}

void describe_delta_net(const json& mixer, json& config, std::vector<std::string>& notes) {
  const Sizes sizes(mixer, config);
  for (const char* field : {"query_heads", "key_heads", "value_heads"}) {
    if (mixer.value(field, sizes.heads) != sizes.heads)
      has_no("layer whose heads share queries, keys or values as here");
  }
  require_unit_keys(mixer, notes);
  const std::string map = mixer.value("feature_map", "identity");
  const bool silu = mixer.value("qk_silu", true);
  if (!mixer.value("v_silu", true) || (silu && map != "identity") || map == "sigmoid" || map == "silu")
    has_no("layer delta_net with these activations");
  describe_common(mixer, config, "use_gate");
  config["num_heads"] = sizes.heads;
  config["expand_k"] = expansion(sizes.heads * sizes.keys, sizes.width);
  config["expand_v"] = expansion(sizes.heads * sizes.values, sizes.width);
  config["qk_activation"] = silu ? "silu" : map == "elu_plus_one" ? "elu" : map;
  config["qk_norm"] = "l2";
  config["use_beta"] = mixer.value("use_beta", true);
  config["allow_neg_eigval"] = mixer.value("allow_neg_eigval", false);
}

constexpr std::int64_t gla_rank = 16;  // of the gate; config.json of the library has no field for it

json gla_mixer(const ConfigFields& config) {
  json mixer = common_mixer(config, "gla", false, true, "use_output_gate");
  const std::int64_t width = config.integer("hidden_size", std::nullopt), heads = config.integer("num_heads", 4),
                     shared = config.integer("num_kv_heads", heads);
  if (heads % shared != 0) config.refuse("num_kv_heads", "it must divide num_heads; correct one of the two");
  mixer["H"] = heads;
  mixer["Dk"] = expanded(config, width, "expand_k", 0.5, heads);
  mixer["Dv"] = expanded(config, width, "expand_v", 1.0, heads);
  mixer["key_heads"] = mixer["value_heads"] = shared;
  mixer["gate_rank"] = config.integer("gate_low_rank_dim", gla_rank);
  // SiLU belongs to the short convolutions.
  mixer["qk_silu"] = mixer["v_silu"] = mixer["use_short_conv"];
  const std::string map = config.text("feature_map", "identity");
  if (map != "identity" && map != "relu" && map != "sigmoid" && map != "silu" && map != "swish")
    config.refuse("feature_map", "relu, sigmoid and silu are computed here; there is no way to convert it");
  mixer["feature_map"] = map == "swish" ? "silu" : map;
  if (config.has("clamp_min")) mixer["clamp_min"] = config.number("clamp_min", 0);
  return mixer;
}

void match_gla_norm(ModelPlan& plan, std::size_t block, const ConfigFields& config, const json& mixer) {
  const bool is_fused = config.flag("fuse_norm", true) && mixer["use_gate"].get<bool>();
  const char* fused = "attn.g_norm_swish_gate.weight";
  const char* apart = "attn.g_norm.weight";
  WeightMatch& norm = plan.match(block, "gla.o_norm.weight", is_fused ? fused : apart);
  if (!config.flag("elementwise_affine", true)) norm.left_out_by = "elementwise_affine";
  plan.also_called(block, is_fused ? apart : fused);
}

void describe_gla(const json& mixer, json& config, std::vector<std::string>&) {
  const Sizes sizes(mixer, config);
  const std::int64_t shared = mixer.value("key_heads", sizes.heads);
  if (mixer.value("query_heads", sizes.heads) != sizes.heads || mixer.value("value_heads", sizes.heads) != shared)
    has_no("layer with these numbers of heads");
  describe_common(mixer, config, "use_output_gate");
  const json convolves = config["use_short_conv"];
  if (mixer.value("qk_silu", true) != convolves || mixer.value("v_silu", true) != convolves)
    has_no("layer gla with SiLU on q, k and v without short convolutions, or short convolutions without SiLU");
  if (mixer.value("gate_rank", gla_rank) != gla_rank) has_no("layer gla with a gate of another rank than 16");
  if (mixer.value("qk_norm", "none") != "none") has_no("layer gla that makes keys of length 1");
  const std::string map = mixer.value("feature_map", "identity");
  if (map == "elu_plus_one") has_no("layer gla with the feature map elu + 1");
  config["num_heads"] = sizes.heads;
  config["num_kv_heads"] = shared;
  config["expand_k"] = expansion(sizes.heads * sizes.keys, sizes.width);
  config["expand_v"] = expansion(sizes.heads * sizes.values, sizes.width);
  config["feature_map"] = map == "identity" ? json() : json(map);
  config["clamp_min"] = mixer.value("clamp_min", json());
}

constexpr FlaMixer mixers[] = {
    {"gated_deltanet", "gated_deltanet", "GatedDeltaNetForCausalLM",
     [](const ConfigFields& config) { return fading_delta_mixer(config, "gated_deltanet", 256, 6, 2.0); },
     "a_proj.weight b_proj.weight A_log dt_bias o_norm.weight", describe_gated_deltanet},
    {"kda", "kda", "KDAForCausalLM", kda_mixer,
     "f_proj.0.weight f_proj.1.weight g_proj.0.weight g_proj.1.weight g_proj.1.bias b_proj.weight A_log dt_bias "
     "o_norm.weight",
     describe_kda},
    {"gla", "gla", "GLAForCausalLM", gla_mixer, "gk_proj.0.weight gk_proj.1.weight gk_proj.1.bias", describe_gla,
     match_gla_norm},
    {"delta_net", "deltanet", "DeltaNetForCausalLM", delta_net_mixer, "o_norm.weight", describe_delta_net}};

constexpr Mamba2Names mamba2_names{.norm_eps = "norm_eps", .step_limit = "dt_limit", .group_default = 1};

bool is_of_fla(const json& config) {
  const json type = config.value("model_type", json());
  return type == "mamba2" ? is_mamba2_of_fla(config) : find_by(mixers, type, &FlaMixer::model_type) != nullptr;
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
  add_mamba_blocks(plan, config, mixer);
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
        config.refuse("attn", "layer ", layer.dump(), " is no layer of the model, or there twice; correct it");
      layers[index] = one;
    }
  }
  return layers;
}

json attention_mixer(ModelPlan& plan, const ConfigFields& config, const json& attn) {
  const ConfigFields own(attn, config.where() + ", attn");
  const std::int64_t heads = own.integer("num_heads", std::nullopt);
  json mixer{{"kind", "attention"},
             {"n_heads", heads},
             {"n_kv_heads", own.integer("num_kv_heads", heads)},
             {"rope_base", own.number("rope_theta", 10000.0)},
             {"qkv_bias", own.flag("qkv_bias", false)}};
  if (own.has("window_size")) mixer["window"] = own.integer("window_size", std::nullopt);
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

ModelPlan plan_fla(const ConfigFields& config) {
  const FlaMixer* kind = find_by(mixers, config.fields().value("model_type", json()), &FlaMixer::model_type);
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
    hybrid == attention.end() ? match_own(plan, block, mixer, kind->tensors)
                              : match_attention(plan, block, mixer, {.base = "attn."});
    if (hybrid == attention.end() && kind->match_more) kind->match_more(plan, block, config, mixer);
    match_mlp(plan, block, mlp, "swiglu.");
    plan.add_block({{"mixer", mixer}, {"mlp", mlp}});
  }
  return plan;
}

/// The field "attn" for the layers with attention.
json attn_of(const std::vector<json>& blocks) {
  std::vector<json> found;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const json& mixer = blocks[i]["mixer"];
    if (mixer.value("kind", "") != "attention") continue;
    if (!mixer.value("use_rope", true)) has_no("model with attention without rotary position code");
    require_known(mixer, {"kind", "n_heads", "n_kv_heads", "use_rope", "rope_base", "qkv_bias", "window"});
    json one{{"num_heads", mixer["n_heads"]},
             {"num_kv_heads", mixer.value("n_kv_heads", mixer["n_heads"])},
             {"rope_theta", mixer.value("rope_base", 10000.0)},
             {"qkv_bias", mixer.value("qkv_bias", false)},
             {"layers", json::array()}};
    if (mixer.value("window", 0) > 0) one["window_size"] = mixer["window"];
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

json fla_config(const json& model, const json&, std::vector<std::string>& notes) {
  const std::vector<json> blocks = blocks_of(model);
  json own;
  for (const json& block : blocks) {
    const std::string kind = block.contains("mixer") ? block["mixer"].value("kind", "") : "none";
    if (kind == "attention") continue;
    if (!own.is_null() && own != block["mixer"]) has_no("model whose layers differ as here");
    if (kind == "none") has_no("model with a block that mixes no tokens");
    own = block["mixer"];
  }
  if (own.is_null()) has_no("model of attention alone among those that are written here");
  if (own["kind"] == "mamba2") {
    const json mixer = common_mamba2_mixer(model, "flash-linear-attention");
    const bool by_group = mixer.value("norm_per_group", false), groups = mixer.value("ngroups", 1) > 1;
    if (mixer.value("rmsnorm", true) && by_group != groups)
      has_no("model with groups whose norm is taken over all columns");
    json config = mamba2_config(model, mixer, mamba2_names);
    config["rmsnorm"] = mixer.value("rmsnorm", true);
    config["architectures"] = {"Mamba2ForCausalLM"};
    return config;
  }
  const FlaMixer* kind = find_by(mixers, own["kind"], &FlaMixer::kind);
  if (kind == nullptr) has_no("model of " + own["kind"].get<std::string>());
  json config = outer_config(model, static_cast<std::int64_t>(blocks.size()));
  for (const json& block : blocks) {
    if (!block.contains("mlp") || block["mlp"].value("kind", "") != "swiglu") has_no("model without swiglu MLPs");
    if (block["mlp"] != blocks.front()["mlp"]) has_no("model whose MLPs differ");
  }
  config["intermediate_size"] = blocks.front()["mlp"]["d_ff"];
  config["hidden_act"] = "swish";
  config["norm_eps"] = model.value("norm_eps", 1e-5);
  if (own.value("norm_eps", 1e-5) != config["norm_eps"]) has_no("model whose layers have another norm_eps than it has");
  config["attn"] = attn_of(blocks);
  kind->describe(own, config, notes);
  config["model_type"] = kind->model_type;
  config["architectures"] = {kind->architecture};
  return config;
}

}  // namespace

CheckpointLibrary fla_library() {
  return {"fla", "mamba2, gated_deltanet, kda, gla, delta_net (flash-linear-attention)", is_of_fla, plan_fla,
          fla_config};
}

}  // namespace afterglow
