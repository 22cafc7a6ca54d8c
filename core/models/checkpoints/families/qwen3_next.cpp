// Hybrids of gated DeltaNet and gated attention: qwen3_next (with experts), and qwen3_5 alone or inside a model that
// sees.
#include "core/models/checkpoints/families/family.h"

namespace afterglow {
namespace {

/// One tensor holds q, k, v and z of qwen3_next, key head by key head, and one b and a; of qwen3_5 q, k and v are one.
void match_delta(ModelPlan& plan, std::size_t block, const json& mixer, bool is_next) {
  const std::int64_t groups = mixer["key_heads"], keys = mixer["Dk"], heads = mixer["H"],
                     values = heads / groups * mixer["Dv"].get<std::int64_t>(), key_rows = groups * keys,
                     value_rows = groups * values, whole = 2 * (keys + values), each = heads / groups;
  const auto match = [&](const char* ours, const char* theirs) -> WeightMatch& {
    return plan.match(block, std::string("gated_deltanet.") + ours, std::string("linear_attn.") + theirs);
  };
  const struct {
    const char *projection, *convolution;
    std::int64_t rows, first, width, first_of_group;
  } streams[] = {{"q_proj.weight", "q_conv1d.weight", key_rows, 0, keys, 0},
                 {"k_proj.weight", "k_conv1d.weight", key_rows, key_rows, keys, keys},
                 {"v_proj.weight", "v_conv1d.weight", value_rows, 2 * key_rows, values, 2 * keys}};
  const std::int64_t all = 2 * key_rows + value_rows;
  for (const auto& stream : streams) {
    if (is_next) {
      match(stream.projection, "in_proj_qkvz.weight")
          .take({.heads = groups, .width = stream.width, .stride = whole, .first = stream.first_of_group},
                groups * whole);
    } else {
      match(stream.projection, "in_proj_qkv.weight").take({.width = stream.rows, .first = stream.first}, all);
    }
    match(stream.convolution, "conv1d.weight").take({.width = stream.rows, .first = stream.first}, all);
  }
  if (is_next) {
    match("g_proj.weight", "in_proj_qkvz.weight")
        .take({.heads = groups, .width = values, .stride = whole, .first = 2 * keys + values}, groups * whole);
    match("b_proj.weight", "in_proj_ba.weight").take({.heads = groups, .width = each, .stride = 2 * each}, 2 * heads);
    match("a_proj.weight", "in_proj_ba.weight")
        .take({.heads = groups, .width = each, .stride = 2 * each, .first = each}, 2 * heads);
  } else {
    match_names(plan, block, "gated_deltanet.", "linear_attn.",
                "g_proj.weight=in_proj_z.weight b_proj.weight=in_proj_b.weight a_proj.weight=in_proj_a.weight");
  }
  match_names(plan, block, "gated_deltanet.", "linear_attn.",
              "A_log dt_bias o_norm.weight=norm.weight o_proj.weight=out_proj.weight");
}

json softmax_experts_of(const ConfigFields& config) {
  return {{"kind", "experts"},
          {"d_ff", config.integer("moe_intermediate_size", 512)},
          {"experts", config.integer("num_experts", 512)},
          {"chosen", config.integer("num_experts_per_tok", 10)},
          {"normalised", config.flag("norm_topk_prob", true)},
          {"shared_ff", config.integer("shared_expert_intermediate_size", 512)},
          {"shared_gate", true}};
}

bool has_no_experts(const ConfigFields& config) {
  return config.has("num_experts") && config.count("num_experts") == 0;
}

/// Layers whose MLP is dense: those of mlp_only_layers, and all but every decoder_sparse_step-th.
bool is_dense(const ConfigFields& config, std::int64_t layer) {
  if (has_no_experts(config) || is_listed(config, "mlp_only_layers", layer)) return true;
  return (layer + 1) % config.integer("decoder_sparse_step", 1) != 0;
}

ModelPlan plan_hybrid(const ConfigFields& config, const std::string& prefix, bool is_next) {
  const double eps = config.number("rms_norm_eps", 1e-6);
  ModelPlan plan(config, eps, prefix, "norm.weight", "embed_tokens.weight");
  plan.model["norm_plus_one"] = true;
  plan.holds_no_weights("mtp.");
  require_silu(config);
  if (!config.flag("attn_output_gate", true)) config.refuse("attn_output_gate", "attention has its gate here");
  const json delta = delta_net_mixer(config, eps);
  json attention = attention_mixer(config);
  read_rotary(config, attention, 0.25);
  attention.update({{"qk_norm", "head"}, {"norm_eps", eps}, {"norm_plus_one", true}, {"output_gate", true}});
  const json dense{{"kind", "swiglu"}, {"d_ff", config.integer("intermediate_size", is_next ? 5632 : 12288)}};
  const json experts = is_next && !has_no_experts(config) ? softmax_experts_of(config) : json();
  for (std::size_t block = 0; const std::string& word : mixers_of(config, "linear_attention", "full_attention",
                                                                  config.integer("full_attention_interval", 4))) {
    const bool attends = word == "full_attention", has_experts = is_next && !is_dense(config, block);
    match_norms(plan, block);
    attends ? match_attention(plan, block, attention) : match_delta(plan, block, delta, is_next);
    has_experts ? match_experts(plan, block, experts) : match_mlp(plan, block, dense, "swiglu.");
    plan.add_block({{"mixer", attends ? attention : delta}, {"mlp", has_experts ? experts : dense}});
    ++block;
  }
  return plan;
}

}  // namespace

/// The text model of one that sees; its other tensors are left.
ModelPlan plan_qwen3_5(const ConfigFields& config) {
  if (!config.has("text_config")) config.refuse("text_config", "the fields of the text model are expected there");
  json text = config.fields()["text_config"];
  text["tie_word_embeddings"] = config.flag("tie_word_embeddings", text.value("tie_word_embeddings", false));
  const ConfigFields own(text, config.part("text_config").where());
  ModelPlan plan = plan_hybrid(own, "model.language_model.", false);
  plan.note_unread(own, library_words()["harmless"]["qwen3_5_text"]);
  return plan;
}

ModelPlan plan_qwen3_5_text(const ConfigFields& config) { return plan_hybrid(config, "model.", false); }

ModelPlan plan_qwen3_next(const ConfigFields& config) { return plan_hybrid(config, "model.", true); }

}  // namespace afterglow
