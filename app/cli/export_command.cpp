// `afterglow export MODEL --format transformers|fla|sessa|spectral_memory|npz --out FOLDER`: a model's weights for
// other programs.
#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

#include "app/cli/start.h"
#include "core/io/arrays/npy.h"
#include "core/io/json_file.h"
#include "core/io/named.h"
#include "core/io/safetensors.h"
#include "core/models/checkpoints/checkpoint.h"

namespace afterglow {
namespace {

constexpr const char* npz_format = "npz";
constexpr std::size_t largest_tokenizer = std::size_t{128} << 20;

std::vector<float> weights_of(const Trainer& trainer) {
  const TrainerState state = trainer.save();
  std::vector<float> values(state.weights.size() / sizeof(float));
  std::memcpy(values.data(), state.weights.data(), state.weights.size());
  return values;
}

/// Another library's model has no field for settings that a slider or `set` has changed.
void note_settings(const Recipe& recipe, Output& output) {
  const bool is_changed = std::ranges::any_of(recipe.commands, [](const TimedCommand& timed) {
    return timed.command.name == "set" && SetNumber::of(timed.command).key.starts_with("layers.");
  });
  if (is_changed) output.note("settings of layers that `set` changed are not written, only the weights");
}

/// The parameters under Afterglow's names, and the recipe that describes them.
std::vector<std::string> write_arrays(const TrainingRun& run, const ExportOptions& options,
                                      const CommonOptions& common) {
  const std::vector<float> values = weights_of(run.trainer());
  std::vector<HostTensor> arrays;
  for (const Parameter& parameter : run.trainer().parameters().all())
    arrays.push_back(make_tensor(parameter.name, parameter.shape.extents(),
                                 std::span(values).subspan(static_cast<std::size_t>(parameter.offset),
                                                           static_cast<std::size_t>(parameter.shape.elements()))));
  const std::filesystem::path weights = options.out / "model.npz", recipe = options.out / "recipe.json";
  require_free_name(weights, common);
  require_free_name(recipe, common);
  write_npz(weights, arrays, existing_files(common));
  write_json(recipe, to_json(run.recipe()));
  return {weights.string(), recipe.string()};
}

std::vector<std::string> write_folder(const TrainingRun& run, const CheckpointLibrary& library,
                                      const ExportOptions& options, const CommonOptions& common, Output& output) {
  const Recipe recipe = run.recipe();
  const WrittenModel written = write_model(library, recipe.model, recipe.task, recipe.checkpoint,
                                           run.trainer().parameters(), weights_of(run.trainer()));
  for (const std::string& note : written.notes) output.note(note);
  const std::filesystem::path weights = options.out / "model.safetensors", config = options.out / "config.json";
  require_free_name(weights, common);
  require_free_name(config, common);
  write_safetensors(weights, written.weights, existing_files(common));
  write_json(config, written.config);
  std::vector<std::string> files{weights.string(), config.string()};
  const std::filesystem::path tokenizer = recipe.task.is_object() ? recipe.task.value("labels", "") : "";
  for (const char* name : {"tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"}) {
    const std::filesystem::path file = tokenizer.parent_path() / name;
    if (std::error_code failed; tokenizer.empty() || !std::filesystem::exists(file, failed)) continue;
    files.push_back(
        write_file_atomically(options.out / name, read_file(file, largest_tokenizer), existing_files(common)).string());
  }
  return files;
}

const CheckpointLibrary& library_named(const std::string& name) {
  if (const auto* found = find_by(checkpoint_libraries(), name, &CheckpointLibrary::name)) return *found;
  throw UsageError("--format ", name, ": there is no such format");
}

}  // namespace

std::vector<std::string> export_formats() {
  std::vector<std::string> names = names_of(checkpoint_libraries(), &CheckpointLibrary::name);
  names.emplace_back(npz_format);
  return names;
}

nlohmann::json export_model(const ExportOptions& options, const CommonOptions& common, Output& output) {
  const SavedRun saved = open_with_weights(options.model, options.step, "export needs weights", common, output);
  make_folder(options.out);
  const std::unique_ptr<Backend> backend = make_backend("cpu", common.threads);
  TrainingRun run(saved, *backend);
  note_settings(run.recipe(), output);
  const std::vector<std::string> files =
      options.format == npz_format ? write_arrays(run, options, common)
                                   : write_folder(run, library_named(options.format), options, common, output);
  for (const std::string& file : files) output.wrote(file);
  return {{"model", options.model}, {"format", options.format}, {"step", run.step()}, {"files", files}};
}

}  // namespace afterglow
