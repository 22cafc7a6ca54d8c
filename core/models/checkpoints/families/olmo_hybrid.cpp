// olmo_hybrid: gated DeltaNet whose states may have negative eigenvalues, and attention with norms after its layers.
#include "core/models/checkpoints/families/family.h"

namespace afterglow {
namespace {

constexpr double gate_norm_eps = 1e-5;  // of the gated norm, whatever rms_norm_eps is

/// The library has one convolution of q, k and v, and writes it as three tensors of equal size.
void match_delta(ModelPlan& plan, std::size_t block, const json& mixer) {
  match_names(plan, block, "gated_deltanet.", "linear_attn.",
              "q_proj.weight k_proj.weight v_proj.weight a_proj.weight b_proj.weight g_proj.weight A_log dt_bias "
              "o_norm.weight o_proj.weight");
  const std::int64_t keys = mixer["key_heads"].get<std::int64_t>() * mixer["Dk"].get<std::int64_t>(),
                     values = mixer["H"].get<std::int64_t>() * mixer["Dv"].get<std::int64_t>();
  const std::string here = "model.layers." + std::to_string(block) + ".linear_attn.";
  std::int64_t first = 0;
  for (const auto& [name, rows] :
       {std::pair{"q_conv1d.weight", keys}, {"k_conv1d.weight", keys}, {"v_conv1d.weight", values}}) {
    WeightMatch& match = plan.match(block, std::string("gated_deltanet.") + name, "linear_attn.q_conv1d.weight");
    match.take({.width = rows, .first = first}, 2 * keys + values).joined = {here + "k_conv1d.weight",
                                                                             here + "v_conv1d.weight"};
    first += rows;
  }
}

}  // namespace

ModelPlan plan_olmo_hybrid(const ConfigFields& config) {
  const double eps = config.number("rms_norm_eps", 1e-6);
  ModelPlan plan(config, eps, "model.", "norm.weight", "embed_tokens.weight");
  json attention = attention_mixer(config);
  // Models without position code have a null in the place of rope_theta; the library fills in what is not there at all.
  const bool turns = !config.has("rope_parameters") || config.part("rope_parameters").has("rope_theta");
  if (turns) read_rotary(config, attention);
  attention.update({{"use_rope", turns}, {"qk_norm", "whole"}, {"norm_eps", eps}});
  const std::int64_t heads = attention["n_heads"], key_heads = config.integer("linear_num_key_heads", heads),
                     width = config.integer("hidden_size", std::nullopt),
                     keys = config.integer("linear_key_head_dim", std::max<std::int64_t>(1, width * 3 / 4 / key_heads));
  json linear = config.fields();
  linear.update({{"linear_num_value_heads", config.integer("linear_num_value_heads", heads)},
                 {"linear_num_key_heads", key_heads},
                 {"linear_key_head_dim", keys},
                 {"linear_value_head_dim", config.integer("linear_value_head_dim", 2 * keys)}});
  json delta = delta_net_mixer(config.filled(linear), gate_norm_eps);
  delta["allow_neg_eigval"] = config.flag("linear_allow_neg_eigval", true);
  const json mlp{{"kind", "swiglu"}, {"d_ff", config.integer("intermediate_size", std::nullopt)}};
  require_silu(config);
  for (std::size_t block = 0; const std::string& word : mixers_of(config, "linear_attention", "full_attention", 4)) {
    const bool attends = word == "full_attention";
    // Files have the names of the authors' layers or of the library's.
    const auto norm = [&](const char* ours, const char* theirs, const char* other) {
      plan.match(block, ours, theirs);
      plan.also_called(block, other);
    };
    if (attends) {
      norm("mixer_norm.weight", "feedforward_layer_norm.weight", "post_attention_layernorm.weight");
      plan.match(block, "mlp_norm.weight", "post_feedforward_layernorm.weight");
      match_attention(plan, block, attention);
    } else {
      norm("mixer_norm.weight", "attention_layer_norm.weight", "input_layernorm.weight");
      norm("mlp_norm.weight", "feedforward_layer_norm.weight", "post_attention_layernorm.weight");
      match_delta(plan, block, delta);
    }
    match_mlp(plan, block, mlp, "swiglu.");
    plan.add_block({{"mixer", attends ? attention : delta}, {"mlp", mlp}, {"norm", attends ? "behind" : "before"}});
    ++block;
  }
  return plan;
}

}  // namespace afterglow
