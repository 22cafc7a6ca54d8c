// The authors' own packages. Sessa's has no model around its SessaLayer, a whole block, so Afterglow's own config.json
// describes it: embedding, layers, a last norm and a head. Spectral Memory's is the forecasting model KLMemory of a
// Time-Series-Library, by the names of its arguments and weights, which Afterglow uses, too. mamba_ssm has a
// config.json with fields of its own and tensors with the names of transformers: Mamba-1 and Mamba-2 without attention
// and MLPs.
#include "core/io/error.h"
#include "core/io/json.h"
#include "core/models/checkpoints/families/family.h"
#include "core/models/checkpoints/mamba2_fields.h"
#include "core/models/checkpoints/model_plan.h"

namespace afterglow {
namespace {

constexpr const char* sessa_type = "sessa";

ModelPlan plan_sessa(const ConfigFields& config) {
  ModelPlan plan(config, config.number("norm_eps", 1e-5), "", "norm.weight");
  const std::int64_t heads = config.integer("n_heads", 1);
  const json mixer{{"kind", sessa_type},
                   {"n_heads", heads},
                   {"n_kv_heads", config.integer("n_kv_heads", heads)},
                   {"use_forward_rope", config.flag("use_forward_rope", true)},
                   {"gamma_max", config.number("gamma_max", 0.999)},
                   {"ln_eps", config.number("ln_eps", 1e-5)}};
  for (std::int64_t layer = 0; layer < config.layers(); ++layer) {
    const auto block = static_cast<std::size_t>(layer);
    const auto match = [&](const std::string& name) { plan.match(block, std::string(sessa_type) + "." + name, name); };
    for (const char* map : {"ln", "W_in", "mixer.q_proj", "mixer.k_proj", "mixer.v_proj", "mixer.proj_fb", "W_out"}) {
      match(std::string(map) + ".weight");
      match(std::string(map) + ".bias");
    }
    match("mixer.gamma_bias");
    match("mixer.gamma_ctx.weight");
    if (heads > 1) match("mixer.out_proj.weight");
    for (const char* table : {"rope_inv_freq", "causal_mask_f_full", "causal_mask_fb_full"})
      plan.holds_no_weights("layers." + std::to_string(layer) + ".mixer." + table);
    plan.add_block({{"mixer", mixer}});
  }
  return plan;
}

json sessa_config(const json& model, const json&, std::vector<std::string>&) {
  const std::vector<json> blocks = blocks_of(model);
  json config = outer_config(model, static_cast<std::int64_t>(blocks.size()));
  for (const json& block : blocks) {
    const bool is_alone =
        block.contains("mixer") && block["mixer"].value("kind", "") == sessa_type && !block.contains("mlp");
    if (!is_alone || block != blocks.front() || !block["mixer"].value("use_feedback", true) ||
        !block["mixer"].value("use_norm", true))
      throw BadInput(
          "a model of Sessa's package has equal Sessa blocks with feedback and nothing else; export with --format npz");
  }
  config.update(blocks.front()["mixer"]);
  config.erase("kind");
  config["norm_eps"] = model.value("norm_eps", 1e-5);
  config["model_type"] = sessa_type;
  return config;
}

constexpr const char* spectral_memory_type = "spectral_memory";

bool is_of_spectral_memory(const json& config) {
  return config.value("model_type", json()) == spectral_memory_type || config.value("model", json()) == "KLMemory";
}

ModelPlan plan_spectral_memory(const ConfigFields& config) {
  if (!config.flag("kl_detach", true))
    config.refuse("kl_detach",
                  "gradients through the decomposition are not computed here; the published value is true");
  // The published arguments; those of the series belong to the task.
  const json model{{"kind", spectral_memory_type},
                   {"d_model", config.integer("d_model", std::nullopt)},
                   {"n_heads", config.integer("n_heads", std::nullopt)},
                   {"d_ff", config.integer("d_ff", std::nullopt)},
                   {"e_layers", config.integer("e_layers", std::nullopt)},
                   {"dropout", config.number("dropout", 0.1)},
                   {"kl_strategy", config.text("kl_strategy", "empirical")},
                   {"kl_kernel", config.text("kl_kernel", "exp")},
                   {"kl_tau", config.number("kl_tau", 64.0)},
                   {"kl_lambda_scale", config.flag("kl_lambda_scale", true)},
                   {"n_components", config.integer("n_components", 16)},
                   {"memory_tokens", config.integer("memory_tokens", 4)},
                   {"memory_depth", config.integer("memory_depth", 3000)}};
  ModelPlan plan(model, {{"kind", "forecast"},
                         {"path", "built-in"},
                         {"length", config.integer("seq_len", std::nullopt)},
                         {"horizon", config.integer("pred_len", std::nullopt)}});
  const auto match = [&](const std::string& name) { plan.weights.push_back({name, {name}}); };
  const auto match_map = [&](const std::string& name) {
    match(name + ".weight");
    match(name + ".bias");
  };
  match("pos_encoding");
  for (const char* map :
       {"enc_embedding", "memory.projection_mlp.0", "memory.projection_mlp.3", "memory.norm", "pooling_layer", "head"})
    match_map(map);
  const auto layers = model["e_layers"].get<std::int64_t>();
  for (std::int64_t i = 0; i < layers; ++i) {
    const std::string layer = "encoder.layers." + std::to_string(i) + ".";
    match(layer + "self_attn.in_proj_weight");
    match(layer + "self_attn.in_proj_bias");
    for (const char* map : {"self_attn.out_proj", "linear1", "linear2", "norm1", "norm2"}) match_map(layer + map);
  }
  plan.holds_no_weights("encoder_layer.");  // the template from which that code copies the layers of its encoder
  plan.not_taken_over("memory._history",
                      "the history of its training is not taken over: a run begins with an empty one, and its memory "
                      "tokens are zeros until there are enough rows");
  return plan;
}

json spectral_memory_config(const json& model, const json& task, std::vector<std::string>& notes) {
  if (model.value("kind", json()) != spectral_memory_type)
    throw BadInput("Spectral Memory's code has the forecasting model spectral_memory alone; export with --format npz");
  json config = model;
  config.erase("kind");
  config["model_type"] = spectral_memory_type;
  config["seq_len"] = task.at("length");
  config["pred_len"] = task.at("horizon");
  notes.emplace_back("the history of the memory is not written; the snapshot keeps it");
  return config;
}

bool is_of_state_spaces(const json& config) { return config.contains("ssm_cfg") && !config.contains("model_type"); }

void refuse_others(const ConfigFields& config, const ConfigFields& ssm, bool is_second) {
  const auto holds = [](const ConfigFields& fields, const char* name) {
    return fields.has(name) && fields.fields()[name] != 0 && fields.fields()[name] != false &&
           fields.fields()[name] != json::array();
  };
  for (const char* field : {"d_intermediate", "attn_layer_idx"})
    if (holds(config, field)) config.refuse(field, "MLPs and attention of mamba_ssm are not read");
  if (!config.flag("rms_norm", true)) config.refuse("rms_norm", "only RMS norms are computed there");
  for (const char* field : {"norm_before_gate", "D_has_hdim", "d_ssm"})
    if (is_second && holds(ssm, field)) ssm.refuse(field, "it is not computed here");
}

ModelPlan plan_state_spaces(const ConfigFields& config) {
  const ConfigFields ssm = config.part("ssm_cfg");
  const std::string layer = ssm.text("layer", "Mamba1");
  const bool is_second = layer == "Mamba2";
  if (!is_second && layer != "Mamba1" && layer != "Mamba") ssm.refuse("layer", "Mamba1 and Mamba2 are read");
  refuse_others(config, ssm, is_second);
  const std::int64_t step = config.integer("pad_vocab_size_multiple", 8), words = config.integer("vocab_size", 50277);
  json outer = ssm.fields();
  outer.update({{"hidden_size", config.integer("d_model", std::nullopt)},
                {"num_hidden_layers", config.integer("n_layer", std::nullopt)},
                {"vocab_size", (words + step - 1) / step * step},  // with the rows that the library adds
                {"tie_word_embeddings", config.flag("tie_embeddings", true)}});
  const ConfigFields fields = ssm.filled(outer);
  ModelPlan plan(fields, 1e-5, "backbone.", "norm_f.weight", "embedding.weight");
  const std::int64_t width = outer["hidden_size"];
  const auto inner = static_cast<std::int64_t>(ssm.number("expand", 2) * static_cast<double>(width));
  json mixer;
  if (is_second) {
    outer["heads"] = inner / ssm.integer("headdim", 64);
    mixer = hybrid_mamba2_mixer(fields,
                                {.states = "d_state",
                                 .taps = "d_conv",
                                 .heads = "heads",
                                 .head = "headdim",
                                 .groups = "ngroups",
                                 .bias = "bias",
                                 .conv_bias = "conv_bias"},
                                inner, 1e-5);
    if (!ssm.has("d_state")) mixer["d_state"] = 128;
    mixer["rmsnorm"] = ssm.flag("rmsnorm", true);
    const auto [least, most] = ssm.range("dt_limit", {0.0, 1e30});
    limit_steps(mixer, least, most);
  } else {
    mixer = mamba_mixer(fields, {"d_state", "d_conv", "expand", "dt_rank", "bias", "conv_bias"});
  }
  add_mamba_blocks(plan, fields, mixer);
  return plan;
}

json state_spaces_config(const json&, const json&, std::vector<std::string>&) {
  throw BadInput("mamba_ssm's config.json is written only for models that came with one; export with --format npz");
}

}  // namespace

CheckpointLibrary sessa_library() {
  return {sessa_type,
          "sessa (layers named as Sessa's package names them)",
          [](const json& config) { return config.value("model_type", json()) == sessa_type; },
          plan_sessa,
          sessa_config,
          "mixer.gamma_ctx.weight",
          R"({"model_type": "sessa", "hidden_size": .., "vocab_size": .., "num_hidden_layers": .., "n_heads": ..})"};
}

CheckpointLibrary spectral_memory_library() {
  return {spectral_memory_type,
          "spectral_memory (KLMemory of its authors)",
          is_of_spectral_memory,
          plan_spectral_memory,
          spectral_memory_config,
          "memory.projection_mlp.0.weight",
          R"({"model_type": "spectral_memory", "seq_len": .., "pred_len": .., "d_model": .., "n_heads": .., )"
          R"("d_ff": .., "e_layers": .., "n_components": .., "memory_tokens": ..})"};
}

CheckpointLibrary state_spaces_library() {
  return {"mamba_ssm", "Mamba-1 and Mamba-2 (mamba_ssm)", is_of_state_spaces, plan_state_spaces, state_spaces_config};
}

}  // namespace afterglow
