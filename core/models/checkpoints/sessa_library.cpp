// Sessa's own package, whose SessaLayer is a whole block. It has no model around its layers, so Afterglow's own
// config.json describes it: embedding, layers, a last norm and a head. All names of that package are in this file.
#include "core/io/error.h"
#include "core/io/json.h"
#include "core/models/checkpoints/model_plan.h"

namespace afterglow {
namespace {

constexpr const char* sessa_type = "sessa";

json mixer_of(const ConfigFields& config) {
  const std::int64_t heads = config.integer("n_heads", 1);
  return {{"kind", sessa_type},
          {"n_heads", heads},
          {"n_kv_heads", config.integer("n_kv_heads", heads)},
          {"use_forward_rope", config.flag("use_forward_rope", true)},
          {"gamma_max", config.number("gamma_max", 0.999)},
          {"ln_eps", config.number("ln_eps", 1e-5)}};
}

ModelPlan plan_sessa(const ConfigFields& config) {
  ModelPlan plan(config, config.number("norm_eps", 1e-5), "", "norm.weight");
  const json mixer = mixer_of(config);
  for (std::int64_t layer = 0; layer < config.layers(); ++layer) {
    const auto block = static_cast<std::size_t>(layer);
    const auto match = [&](const std::string& name) { plan.match(block, std::string(sessa_type) + "." + name, name); };
    for (const char* map : {"ln", "W_in", "mixer.q_proj", "mixer.k_proj", "mixer.v_proj", "mixer.proj_fb", "W_out"}) {
      match(std::string(map) + ".weight");
      match(std::string(map) + ".bias");
    }
    match("mixer.gamma_bias");
    match("mixer.gamma_ctx.weight");
    if (mixer["n_heads"] > 1) match("mixer.out_proj.weight");
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
        !block["mixer"].value("use_norm", true) || model.contains("memory"))
      throw Error(
          ExitCode::bad_input,
          "a model of Sessa's package has equal Sessa blocks with feedback and nothing else; export with --format npz");
  }
  config.update(blocks.front()["mixer"]);
  config.erase("kind");
  config["norm_eps"] = model.value("norm_eps", 1e-5);
  config["model_type"] = sessa_type;
  return config;
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

}  // namespace afterglow
