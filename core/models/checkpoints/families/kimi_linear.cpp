// kimi_linear: Kimi Delta Attention, latent attention without position code, and experts after the first layers.
#include "core/models/checkpoints/families/family.h"

namespace afterglow {
namespace {

/// mlp_layer_types, or experts in every moe_layer_freq-th layer from first_k_dense_replace on.
std::vector<bool> sparse_layers(const ConfigFields& config) {
  std::vector<bool> sparse;
  const std::int64_t first = config.has("first_k_dense_replace") ? config.count("first_k_dense_replace") : 1,
                     every = config.integer("moe_layer_freq", 1);
  for (std::int64_t i = 0; i < config.layers(); ++i) sparse.push_back(i >= first && i % every == 0);
  std::size_t layer = 0;
  for (const std::string& word : config.layer_words("mlp_layer_types")) {
    if (word != "dense" && word != "sparse") config.refuse("mlp_layer_types", "dense and sparse are expected");
    sparse[layer++] = word == "sparse";
  }
  return sparse;
}

json kda_mixer(const ConfigFields& config, const ConfigFields& linear) {
  const std::int64_t heads = linear.integer("num_heads", config.integer("linear_num_heads", 32)),
                     width = linear.integer("head_dim", config.integer("linear_head_dim", 128));
  return {{"kind", "kda"},
          {"H", heads},
          {"Dk", width},
          {"Dv", width},
          {"conv_size", linear.integer("short_conv_kernel_size", config.integer("linear_conv_kernel_dim", 4))},
          {"use_short_conv", true},
          {"qk_norm", "l2"},
          {"gate_rank", width},
          {"output_gate_rank", width},
          {"gate_activation", "sigmoid"},
          {"norm_eps", config.number("rms_norm_eps", 1e-5)}};
}

constexpr const char* kda_names =
    "q_proj.weight k_proj.weight v_proj.weight q_conv1d.weight k_conv1d.weight v_conv1d.weight "
    "f_proj.0.weight=f_a_proj.weight f_proj.1.weight=f_b_proj.weight g_proj.0.weight=g_a_proj.weight "
    "g_proj.1.weight=g_b_proj.weight b_proj.weight dt_bias o_norm.weight o_proj.weight";
constexpr const char* latent_names =
    "kv_a_proj.weight=kv_a_proj_with_mqa.weight kv_a_norm.weight=kv_a_layernorm.weight kv_b_proj.weight o_proj.weight ";
constexpr const char* query_names = "q_a_proj.weight q_a_norm.weight=q_a_layernorm.weight q_b_proj.weight";

json latent_mixer(const ConfigFields& config) {
  if (!config.flag("mla_use_nope", true))
    config.refuse("mla_use_nope", "latent attention is computed without position code here");
  const std::int64_t shared = config.has("qk_rope_head_dim") ? config.count("qk_rope_head_dim") : 64;
  json mixer{{"kind", "attention"},
             {"n_heads", config.integer("num_attention_heads", 32)},
             {"head_dim", config.integer("qk_nope_head_dim", 128) + shared},
             {"value_dim", config.integer("v_head_dim", 128)},
             {"kv_rank", config.integer("kv_lora_rank", 512)},
             {"shared_width", shared},
             {"norm_eps", 1e-6}};  // whatever rms_norm_eps is
  mixer["qkv_bias"] = mixer["o_bias"] = config.flag("attention_bias", false);
  if (config.has("q_lora_rank")) mixer["q_rank"] = config.integer("q_lora_rank", std::nullopt);
  return mixer;
}

json experts_of(const ConfigFields& config) {
  const std::int64_t width = config.integer("moe_intermediate_size", 1024),
                     groups = config.integer("num_expert_group", 1);
  const std::string scores = config.text("moe_router_activation_func", "sigmoid");
  if (scores != "sigmoid") config.refuse("moe_router_activation_func", "sigmoid is computed here");
  return {{"kind", "experts"},
          {"d_ff", width},
          {"experts", config.integer("num_experts", 256)},
          {"chosen", config.integer("num_experts_per_token", 8)},
          {"router", "sigmoid"},
          {"normalised", config.flag("moe_renormalize", true)},
          {"norm_eps", 1e-20},
          {"factor", config.number("routed_scaling_factor", 2.446)},
          {"groups", groups},
          {"kept_groups", config.integer("topk_group", groups)},
          {"correction", true},
          {"shared_ff", width * (config.has("num_shared_experts") ? config.count("num_shared_experts") : 1)}};
}

}  // namespace

ModelPlan plan_kimi_linear(const ConfigFields& config) {
  const double eps = config.number("rms_norm_eps", 1e-5);
  for (const char* field :
       {"mla_use_output_gate", "attn_res_block_size", "use_full_rank_output_gate", "forget_gate_lower_bound"}) {
    if (config.has(field) && config.fields()[field] != false && config.fields()[field] != 0)
      config.refuse(field, "kimi_linear with it is not computed here; a model without it is");
  }
  ModelPlan plan(config, eps, "model.", "norm.weight", "embed_tokens.weight");
  require_silu(config);
  const ConfigFields linear = config.part("linear_attn_config");
  const json kda = kda_mixer(config, linear), latent = latent_mixer(config), experts = experts_of(config),
             dense{{"kind", "swiglu"},
                   {"d_ff", config.integer("dense_ffn_hidden", config.integer("intermediate_size", 9216))}};
  // The layers that attend: layer_types, the lists of linear_attn_config (from 1), or every fourth.
  const bool by_number = !config.has("layer_types") && linear.has("full_attn_layers");
  const std::vector<std::string> words =
      by_number ? listed_mixers(linear, "full_attn_layers", 1, config.layers(), "linear_attention")
                : mixers_of(config, "linear_attention", "full_attention", 4);
  const std::vector<bool> sparse = sparse_layers(config);
  const ExpertNames names{.base = "block_sparse_moe.", .shared = "shared_experts.", .expert = {"", "w1", "w3", "w2"}};
  for (std::size_t block = 0; block < words.size(); ++block) {
    const bool attends = words[block] == "full_attention";
    match_norms(plan, block);
    if (attends && latent["o_bias"].get<bool>())
      match_names(plan, block, "attention.", "self_attn.",
                  std::string("kv_a_proj.bias=kv_a_proj_with_mqa.bias o_proj.bias") +
                      (latent.contains("q_rank") ? " q_a_proj.bias" : ""));
    match_names(
        plan, block, attends ? "attention." : "kda.", "self_attn.",
        attends ? latent_names + std::string(latent.contains("q_rank") ? query_names : "q_proj.weight") : kda_names);
    if (!attends) plan.match(block, "kda.A_log", "self_attn.A_log").shape = {1, 1, kda["H"].get<std::int64_t>(), 1};
    sparse[block] ? match_experts(plan, block, experts, names)
                  : match_mlp(plan, block, dense, "swiglu.", {.base = "block_sparse_moe.", .other = "mlp."});
    plan.add_block({{"mixer", attends ? latent : kda}, {"mlp", sparse[block] ? experts : dense}});
  }
  return plan;
}

}  // namespace afterglow
