// The list of libraries, the parts that their models share, and Hugging Face transformers: Mamba2ForCausalLM, and the
// families in families/.
#include <algorithm>

#include "core/io/embedded_text.h"
#include "core/io/error.h"
#include "core/io/json.h"
#include "core/io/named.h"
#include "core/io/wording.h"
#include "core/models/checkpoints/families/family.h"
#include "core/models/checkpoints/mamba2_fields.h"
#include "core/models/checkpoints/model_plan.h"

namespace afterglow {
namespace {

constexpr Mamba2Names transformers_names{
    .norm_eps = "layer_norm_epsilon", .step_limit = "time_step_limit", .group_default = 8};

bool is_of_transformers(const json& config) {
  const bool is_mamba2 = config.value("model_type", json()) == "mamba2" && !is_mamba2_of_fla(config);
  return is_mamba2 || find_family(config) != nullptr;
}

ModelPlan plan_transformers(const ConfigFields& config) {
  if (const PlanFamily family = find_family(config.fields())) {
    config.skip(library_words()["harmless"][config.text("model_type", "")]);
    return family(config);
  }
  ModelPlan plan(config, config.number(transformers_names.norm_eps, 1e-5), "backbone.", "norm_f.weight");
  json mixer = mamba2_mixer(config, transformers_names);
  take_norm_of_version(plan, config, mixer);
  add_mamba_blocks(plan, config, mixer);
  return plan;
}

json transformers_config(const json& model, const json&, std::vector<std::string>& notes) {
  const json mixer = common_mamba2_mixer(model, "transformers");
  if (!mixer.value("rmsnorm", true))
    throw BadInput("transformers' Mamba2 always has a gated norm; export with --format fla");
  json config = mamba2_config(model, mixer, transformers_names);
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

// Each is at the end of its file.
CheckpointLibrary transformers_library(), fla_library(), state_spaces_library(), sessa_library(),
    spectral_memory_library();

/// The files of assets/models.
std::span<const EmbeddedText> model_texts();

const json& library_words() {
  static const json words = json::parse(model_texts().front().json);
  return words;
}

std::vector<std::int64_t> rows_of_heads(const HeadRows& of) {
  std::vector<std::int64_t> rows;
  for (std::int64_t row = 0; row < of.heads * of.width; ++row) {
    const std::int64_t head = row / of.width, place = row % of.width;
    rows.push_back(of.first + head * (of.stride > 0 ? of.stride : of.width) +
                   (place < of.turned ? place / 2 + place % 2 * (of.turned / 2) : place));
  }
  return rows;
}

ModelPlan::ModelPlan(const ConfigFields& config, double norm_eps, std::string prefix, const char* last_norm,
                     const char* embedding)
    : prefix_(std::move(prefix)) {
  const bool is_tied = config.flag("tie_word_embeddings", false);
  model = {{"d_model", config.integer("hidden_size", std::nullopt)},
           {"vocab", config.integer("vocab_size", std::nullopt)},
           {"tie_embedding", is_tied},
           {"norm_eps", norm_eps},
           {"blocks", json::array()}};
  for (const char* field : {"quantization_config", "quantization", "per_layer_config"}) {
    if (config.has(field))
      config.refuse(field, "quantised weights and layers that differ are not read; save the model in float32");
  }
  weights.push_back({"embedding.weight", spelled(embedding)});
  weights.back().names.push_back(prefix_ + "embedding.weight");  // its name in old files
  if (is_tied) weights.back().names.emplace_back(head_tensor);
  weights.push_back({"norm.weight", spelled(last_norm)});
  if (!is_tied) add_head();
}

std::vector<std::string> ModelPlan::spelled(const std::string& name) const { return {prefix_ + name, name}; }

void ModelPlan::add_head() { weights.push_back({"head.weight", {head_tensor}}); }

void ModelPlan::add_block(const json& block) {
  json& all = model["blocks"];
  json repeated = block;
  repeated["repeat"] = all.empty() ? json(0) : all.back()["repeat"];
  if (all.empty() || repeated != all.back()) {
    repeated["repeat"] = 0;
    all.push_back(repeated);
  }
  all.back()["repeat"] = all.back()["repeat"].get<std::int64_t>() + 1;
}

WeightMatch& ModelPlan::match(std::size_t block, const std::string& ours, const std::string& theirs) {
  const std::string here = "layers." + std::to_string(block) + ".";
  weights.push_back({here + ours, spelled(here + theirs)});
  return weights.back();
}

void ModelPlan::also_called(std::size_t block, const std::string& theirs) {
  for (const std::string& name : spelled("layers." + std::to_string(block) + "." + theirs))
    weights.back().names.push_back(name);
}

void ModelPlan::note_unread(const ConfigFields& config, const std::string& harmless_fields) {
  const std::string everywhere = library_words()["harmless"]["everywhere"];
  const std::string names = joined(names_of(config.unread(everywhere + " " + harmless_fields), in_quotes), ", ");
  if (names.empty()) return;
  const std::string note = config.where() + ": fields that Afterglow does not know and does not use: " + names +
                           "; where the library computes with one of them, its answers differ from these";
  if (std::ranges::find(notes, note) == notes.end()) notes.push_back(note);
}

ModelPlan plan_of(const CheckpointLibrary& library, const ConfigFields& config) {
  ModelPlan plan = library.plan(config);
  plan.note_unread(config, library_words()["harmless"][library.name]);
  return plan;
}

std::vector<json> blocks_of(const json& model) {
  if (model.contains("retrieval"))
    throw BadInput("no other library builds the network of a proof; export its weights with --format npz");
  std::vector<json> all;
  for (json block : model.at("blocks")) {
    const std::int64_t repeat = block.value("repeat", std::int64_t{1});
    block.erase("repeat");
    all.insert(all.end(), static_cast<std::size_t>(repeat), block);
  }
  return all;
}

void require_known(const json& fields, std::initializer_list<std::string_view> known) {
  for (const auto& [field, value] : fields.items()) {
    if (std::ranges::find(known, field) == known.end())
      throw BadInput("no library's config.json can say the model's ", in_quotes(field), "; export with --format npz");
  }
}

json outer_config(const json& model, std::int64_t blocks) {
  return {{"hidden_size", model.at("d_model")},
          {"vocab_size", model.at("vocab")},
          {"num_hidden_layers", blocks},
          {"tie_word_embeddings", model.value("tie_embedding", false)},
          {"dtype", "float32"},
          {"torch_dtype", "float32"}};
}

const std::vector<CheckpointLibrary>& checkpoint_libraries() {
  static const std::vector<CheckpointLibrary> all{transformers_library(), fla_library(), state_spaces_library(),
                                                  sessa_library(), spectral_memory_library()};
  return all;
}

std::string config_to_write(const std::vector<std::string>& tensors) {
  for (const CheckpointLibrary& library : checkpoint_libraries()) {
    const auto is_its = [&](const std::string& name) {
      return library.mark != nullptr && name.ends_with(library.mark);
    };
    if (std::ranges::any_of(tensors, is_its))
      return "; by their names the weights are those of " + library.about + ": put a config.json next to " +
             "model.safetensors with the sizes of " + library.needed_config;
  }
  return "";
}

const CheckpointLibrary& library_of(const json& config, std::string_view where) {
  for (const CheckpointLibrary& library : checkpoint_libraries()) {
    if (library.knows(config)) return library;
  }
  const auto models = names_of(checkpoint_libraries(),
                               [](const CheckpointLibrary& library) { return library.name + ": " + library.about; });
  const json type = config.value("model_type", json());
  throw BadInput(where, ": \"model_type\" is ", type.is_null() ? "missing" : type.dump(),
                 ", of which Afterglow has no layers; it opens models of ", joined(models, "; "));
}

CheckpointLibrary transformers_library() {
  std::string models;
  for (const json& row : library_words()["models"])
    if (row["library"] == "transformers") models += (models.empty() ? "" : ", ") + row["name"].get<std::string>();
  return {"transformers", models, is_of_transformers, plan_transformers, transformers_config};
}

}  // namespace afterglow
