// The official mamba_ssm: its config.json has fields of its own, its tensors have the names of transformers. Models of
// Mamba-1 and Mamba-2 without attention and MLPs.
#include "core/io/error.h"
#include "core/io/json.h"
#include "core/models/checkpoints/families/family.h"
#include "core/models/checkpoints/mamba2_fields.h"

namespace afterglow {
namespace {

bool is_of_state_spaces(const json& config) { return config.contains("ssm_cfg") && !config.contains("model_type"); }

/// The vocabulary with the rows that the library adds.
std::int64_t padded_vocabulary(const ConfigFields& config) {
  const std::int64_t step = config.integer("pad_vocab_size_multiple", 8), words = config.integer("vocab_size", 50277);
  return (words + step - 1) / step * step;
}

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
  json outer = ssm.fields();
  outer.update({{"hidden_size", config.integer("d_model", std::nullopt)},
                {"num_hidden_layers", config.integer("n_layer", std::nullopt)},
                {"vocab_size", padded_vocabulary(config)},
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
  for (std::size_t block = 0; block < static_cast<std::size_t>(fields.layers()); ++block) {
    plan.match(block, "mixer_norm.weight", "norm.weight");
    is_second ? match_mamba2(plan, block, mixer, "mamba2.", "mixer.") : match_mamba(plan, block, mixer, "mixer.");
    plan.add_block({{"mixer", mixer}});
  }
  return plan;
}

json state_spaces_config(const json&, const json&, std::vector<std::string>&) {
  throw BadInput("mamba_ssm's config.json is written only for models that came with one; export with --format npz");
}

}  // namespace

CheckpointLibrary state_spaces_library() {
  return {"mamba_ssm", "Mamba-1 and Mamba-2 (mamba_ssm)", is_of_state_spaces, plan_state_spaces, state_spaces_config};
}

}  // namespace afterglow
