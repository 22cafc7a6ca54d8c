// Hugging Face transformers: Mamba2ForCausalLM. All names of that library stand in this file.
#include <cmath>

#include "core/io/error.h"
#include "core/models/checkpoints/mamba2_fields.h"
#include "core/models/checkpoints/model_plan.h"

namespace afterglow {

namespace {

using nlohmann::json;

constexpr Mamba2Names names{.norm_eps = "layer_norm_epsilon", .step_limit = "time_step_limit", .group_default = 8};

bool knows(const json& config) { return config.value("model_type", json()) == "mamba2" && !is_mamba2_of_fla(config); }

ModelPlan plan(const ConfigFields& config) {
  ModelPlan plan(config, config.number(names.norm_eps, 1e-5), "backbone.", "norm_f.weight");
  const json mixer = mamba2_mixer(config, names);
  add_mamba2_blocks(plan, config, mixer);
  return plan;
}

json config_of(const json& model, const json&, std::vector<std::string>&) {
  const json mixer = common_mamba2_mixer(model, "transformers");
  if (!mixer.value("rmsnorm", true) || mixer.value("norm_per_group", false))
    throw Error(ExitCode::bad_input,
                "transformers' Mamba2 always takes one gated norm over all columns; export with --format fla");
  json config = mamba2_config(model, mixer, names);
  config["architectures"] = {"Mamba2ForCausalLM"};
  return config;
}

}  // namespace

CheckpointLibrary transformers_library() { return {"transformers", "mamba2", knows, plan, config_of}; }

}  // namespace afterglow
