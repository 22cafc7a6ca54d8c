// Mamba-2's fields and tensors.
#include "core/models/checkpoints/mamba2_fields.h"

#include <cmath>

#include "core/io/error.h"
#include "core/io/json.h"
#include "core/models/checkpoints/families/family.h"

namespace afterglow {
namespace {

/// A field with the same name in both libraries, and its default in each.
struct Field {
  const char *ours, *theirs;
  json our_default, their_default;
};
const std::vector<Field>& fields() {
  static const std::vector<Field> all{{"d_state", "state_size", 64, 128}, {"d_conv", "conv_kernel", 4, 4},
                                      {"expand", "expand", 2, 2},         {"headdim", "head_dim", 64, 64},
                                      {"bias", "use_bias", false, false}, {"conv_bias", "use_conv_bias", true, true}};
  return all;
}

json value_of(const ConfigFields& config, const char* name, const json& fallback) {
  if (fallback.is_boolean()) return config.flag(name, fallback.get<bool>());
  const double number = config.number(name, fallback.get<double>());
  const auto whole = static_cast<std::int64_t>(std::llround(number));
  return static_cast<double>(whole) == number ? json(whole) : json(number);
}

}  // namespace

bool is_mamba2_of_fla(const json& config) {
  for (const char* field :
       {"norm_eps", "dt_limit", "rmsnorm", "D_has_hdim", "fuse_norm", "fuse_cross_entropy", "use_l2warp"}) {
    if (config.contains(field)) return true;
  }
  return false;
}

json mamba2_mixer(const ConfigFields& config, const Mamba2Names& names) {
  json mixer{{"kind", "mamba2"},
             {"ngroups", config.integer("n_groups", names.group_default)},
             {"norm_eps", config.number(names.norm_eps, 1e-5)}};
  for (const Field& field : fields()) mixer[field.ours] = value_of(config, field.theirs, field.their_default);
  require_silu(config);
  const auto [least, most] = config.range(names.step_limit, {0.0, INFINITY});
  limit_steps(mixer, least, most);
  const double heads = static_cast<double>(config.integer("hidden_size", std::nullopt)) *
                       mixer["expand"].get<double>() / mixer["headdim"].get<double>();
  if (config.has("num_heads") && static_cast<double>(config.integer("num_heads", std::nullopt)) != heads)
    config.refuse("num_heads", "expand * hidden_size / head_dim is ", json(heads).dump(), "; correct one of the four");
  return mixer;
}

void add_mamba_blocks(ModelPlan& plan, const ConfigFields& config, const json& mixer) {
  const auto count = static_cast<std::size_t>(config.layers());
  for (std::size_t i = 0; i < count; ++i) {
    plan.match(i, "mixer_norm.weight", "norm.weight");
    mixer["kind"] == "mamba" ? match_mamba(plan, i, mixer, "mixer.")
                             : match_mamba2(plan, i, mixer, "mamba2.", "mixer.");
    plan.add_block({{"mixer", mixer}});
  }
}

void match_mamba2(ModelPlan& plan, std::size_t block, const json& mixer, const std::string& ours,
                  const std::string& theirs) {
  const bool bias = mixer.value("bias", false);
  std::string names = "in_proj.weight conv1d.weight dt_bias A_log D out_proj.weight";
  if (bias) names += " in_proj.bias";
  if (mixer.value("conv_bias", true)) names += " conv1d.bias";
  if (mixer.value("rmsnorm", true)) names += " norm.weight";
  if (mixer.value("out_bias", bias)) names += " out_proj.bias";
  match_names(plan, block, ours, theirs, names);
}

void limit_steps(json& mixer, double least, double most) {
  if (least > 0) mixer["dt_floor"] = least;
  constexpr double never_reached = 1e6;  // a limit on the step that no step reaches
  if (most < never_reached) mixer["dt_ceiling"] = most;
}

std::int64_t expanded_width(const ConfigFields& config) {
  return static_cast<std::int64_t>(config.number("mamba_expand", 2) *
                                   static_cast<double>(config.integer("hidden_size", std::nullopt)));
}

json hybrid_mamba2_mixer(const ConfigFields& config, const HybridMamba2Names& names, std::int64_t inner,
                         double norm_eps) {
  const std::int64_t heads = config.integer(names.heads, 128), groups = config.integer(names.groups, 1);
  const bool has_width = config.has(names.head) && config.fields()[names.head] != "auto";
  const std::int64_t width = has_width ? config.integer(names.head, std::nullopt) : inner / heads;
  if (width * heads != inner)
    config.refuse(names.heads, "heads of width ", width, " must make up ", inner, " columns; correct one of them");
  if (activation_of(config, names.activation) != "silu")
    config.refuse(names.activation, "only \"silu\" is computed behind the convolution of Mamba-2");
  return {{"kind", "mamba2"},
          {"d_state", config.integer(names.states, 256)},
          {"d_conv", config.integer(names.taps, 4)},
          {"d_inner", inner},
          {"headdim", width},
          {"ngroups", groups},
          {"norm_per_group", groups > 1},
          {"bias", config.flag(names.bias, false)},
          {"conv_bias", config.flag(names.conv_bias, true)},
          {"norm_eps", norm_eps}};
}

void take_norm_of_version(ModelPlan& plan, const ConfigFields& config, json& mixer) {
  const std::string version = config.text("transformers_version", "");
  int major = 0, minor = 0;
  const bool is_known = std::sscanf(version.c_str(), "%d.%d", &major, &minor) == 2;
  // Earlier exports of Afterglow had no version, and both names of the type field.
  const bool is_own = config.has("dtype") && config.has("torch_dtype");
  take_gated_norm(plan, mixer, is_known ? std::pair(major, minor) >= std::pair(5, 23) : !is_own,
                  (is_known ? "transformers " + version + " wrote the folder"
                            : std::string("config.json does not say which transformers it is for") +
                                  (is_own ? ", and an earlier Afterglow wrote it" : "")) +
                      "; \"transformers_version\" in config.json chooses, 5.22.0 the one and 5.23.0 the other");
}

void take_gated_norm(ModelPlan& plan, json& mixer, bool per_group, const std::string& why) {
  const auto groups = mixer["ngroups"].get<std::int64_t>();
  if (groups == 1) return;
  mixer["norm_per_group"] = per_group;
  plan.notes.push_back("the gated RMS norm is taken " +
                       (per_group
                            ? "of each of the " + std::to_string(groups) + " groups by itself"
                            : "over all columns, not of each group as mamba_ssm, vLLM and later versions take it") +
                       ": " + why);
}

json common_mamba2_mixer(const json& model, const std::string& library) {
  const std::vector<json> blocks = blocks_of(model);
  const auto refuse = [&](const auto&... what) {
    throw BadInput(library, " has no model ", what..., "; export with --format npz");
  };
  if (blocks.empty()) refuse("without blocks");
  for (const json& block : blocks) {
    const std::string kind = block.contains("mixer") ? block["mixer"].value("kind", "") : "";
    if (kind != "mamba2") refuse("with a block of ", kind.empty() ? "no mixer" : kind, " among these");
    if (block.contains("mlp")) refuse("with an MLP behind mamba2");
    if (block != blocks.front()) refuse("whose mamba2 blocks differ");
  }
  json mixer = blocks.front()["mixer"];
  if (mixer.value("norm_eps", 1e-5) != model.value("norm_eps", 1e-5))
    refuse("whose mamba2 layers have another norm_eps than the norms before them");
  return mixer;
}

json mamba2_config(const json& model, const json& mixer, const Mamba2Names& names) {
  json config = outer_config(model, static_cast<std::int64_t>(blocks_of(model).size()));
  config["model_type"] = "mamba2";
  config["n_groups"] = mixer.value("ngroups", 1);
  config[names.norm_eps] = mixer.value("norm_eps", 1e-5);
  for (const Field& field : fields()) config[field.theirs] = mixer.value(field.ours, field.our_default);
  config["num_heads"] = std::llround(config["expand"].get<double>() * config["hidden_size"].get<double>() /
                                     config["head_dim"].get<double>());
  config["hidden_act"] = "silu";
  // A bare Infinity, as Python writes it, is not JSON. Newer libraries read this object; all accept a missing limit.
  const json endless{{"__float__", "Infinity"}};
  if (mixer.contains("dt_ceiling") || mixer.value("dt_floor", 0.0) > 0)
    config[names.step_limit] = {mixer.value("dt_floor", 0.0), mixer.value("dt_ceiling", endless)};
  return config;
}

}  // namespace afterglow
