// Hugging Face transformers: Mamba2ForCausalLM, and the families in families/.
#include "core/io/error.h"
#include "core/io/json.h"
#include "core/models/checkpoints/families/family.h"
#include "core/models/checkpoints/mamba2_fields.h"
#include "core/models/checkpoints/model_plan.h"

namespace afterglow {
namespace {

constexpr Mamba2Names names{.norm_eps = "layer_norm_epsilon", .step_limit = "time_step_limit", .group_default = 8};

bool knows(const json& config) {
  const bool is_mamba2 = config.value("model_type", json()) == "mamba2" && !is_mamba2_of_fla(config);
  return is_mamba2 || find_family(config) != nullptr;
}

ModelPlan plan(const ConfigFields& config) {
  if (const PlanFamily family = find_family(config.fields())) {
    config.skip(library_words()["harmless"][config.text("model_type", "")]);
    return family(config);
  }
  ModelPlan plan(config, config.number(names.norm_eps, 1e-5), "backbone.", "norm_f.weight");
  json mixer = mamba2_mixer(config, names);
  take_norm_of_version(plan, config, mixer);
  add_mamba2_blocks(plan, config, mixer);
  return plan;
}

json config_of(const json& model, const json&, std::vector<std::string>& notes) {
  const json mixer = common_mamba2_mixer(model, "transformers");
  if (!mixer.value("rmsnorm", true))
    throw BadInput("transformers' Mamba2 always has a gated norm; export with --format fla");
  json config = mamba2_config(model, mixer, names);
  const bool is_over_all = mixer.value("ngroups", 1) > 1 && !mixer.value("norm_per_group", false);
  config["transformers_version"] = is_over_all ? "5.22.0" : "5.23.0";
  if (is_over_all)
    notes.emplace_back(
        "the gated norm is over all columns: load the folder with transformers up to 5.22, as later ones take it of "
        "each group and answer otherwise, or train with \"norm_per_group\": true");
  config["architectures"] = {"Mamba2ForCausalLM"};
  return config;
}

}  // namespace

CheckpointLibrary transformers_library() {
  std::string models;
  for (const ReadableModel& row : readable_models())
    if (row.library == "transformers") models += (models.empty() ? "" : ", ") + row.name;
  return {"transformers", models, knows, plan, config_of};
}

}  // namespace afterglow
