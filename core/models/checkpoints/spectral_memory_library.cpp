// Spectral Memory's own code: the forecasting model KLMemory of a Time-Series-Library, by the names of its arguments
// and weights, which Afterglow uses, too. All names of that code are in this file.
#include "core/io/error.h"
#include "core/io/json.h"
#include "core/models/checkpoints/model_plan.h"

namespace afterglow {
namespace {

constexpr const char* spectral_memory_type = "spectral_memory";

bool is_of_spectral_memory(const json& config) {
  return config.value("model_type", json()) == spectral_memory_type || config.value("model", json()) == "KLMemory";
}

/// The published arguments; those of the series belong to the task.
json model_of(const ConfigFields& config) {
  if (!config.flag("kl_detach", true))
    config.refuse("kl_detach",
                  "gradients through the decomposition are not computed here; the published value is true");
  return {{"kind", spectral_memory_type},
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
}

ModelPlan plan_spectral_memory(const ConfigFields& config) {
  const json model = model_of(config);
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

}  // namespace

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

}  // namespace afterglow
