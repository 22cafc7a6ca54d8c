// The run that a command starts from.
#include "app/cli/start.h"

#include <algorithm>
#include <cstdio>

#include "core/engine/session/kept_runs.h"
#include "core/engine/training/trainer.h"
#include "core/io/checksum.h"
#include "core/io/number_text.h"
#include "core/io/terminal_text.h"
#include "core/models/checkpoints/checkpoint.h"
#include "core/tasks/fields.h"
#include "core/tasks/series_windows.h"
#include "gpu/cuda.h"

namespace afterglow {
namespace {

/// As commands at the snapshot's step, after those of its past.
void add_layer_settings(Snapshot& snapshot, const std::vector<std::string>& assignments) {
  nlohmann::json changes = nlohmann::json::object();
  for (const std::string& assignment : assignments) apply_assignment(changes, assignment);
  std::vector<TimedCommand>& commands = snapshot.recipe.commands;
  for (const nlohmann::json& change : changes.value("commands", nlohmann::json::array())) {
    const auto later =
        std::ranges::find_if(commands, [&](const TimedCommand& command) { return command.step > snapshot.step; });
    commands.insert(later, {snapshot.step, parse_command(change)});
  }
}

void build_for_nothing(const Recipe& recipe) {
  const std::vector<Setting> settings = settings_of(recipe);
  for (const TimedCommand& timed : recipe.commands) {
    if (timed.command.name != "set" || timed.step > 0) continue;
    const SetNumber set = SetNumber::of(timed.command);
    if (is_layer_setting(set.key)) check_setting(settings, set.key, set.to);
  }
}

bool is_sound(const Recipe& recipe) {
  try {
    build_for_nothing(recipe);
    return true;
  } catch (const Error&) {
    return false;
  }
}

/// The recipe with --precision, if that is given.
Recipe& set_precision(SavedRun& saved, const CommonOptions& common) {
  Recipe& recipe = saved.own_recipe();
  if (!common.precision.empty()) recipe.precision = parse_precision(common.precision);
  return recipe;
}

}  // namespace

void require_sound(const Recipe& changed, Recipe before) {
  try {
    build_for_nothing(changed);
  } catch (const Error& error) {
    for (const char* field : {"path", "hash"}) {  // an unreadable file is bad input, not wrong usage
      if (changed.task.contains(field) && changed.task["kind"] == before.task["kind"])
        before.task[field] = changed.task[field];
    }
    throw Error(error.code() == ExitCode::bad_input && is_sound(before) ? ExitCode::usage : error.code(), error.what());
  }
}

SavedRun starting_run(const StartOptions& options, const CommonOptions& common, const std::string& fallback) {
  const int named = !options.preset.empty() + !options.recipe.empty() + !options.snapshot.empty();
  if (named > 1) throw UsageError("give only one of --preset, --recipe and a snapshot");
  SavedRun moment;
  if (!options.snapshot.empty()) {
    moment = open_named(options.snapshot, options.step);
    if (!moment.has_weights())
      throw BadInput(options.snapshot,
                     ": this file has no weights to continue from; give a snapshot (.safetensors) or the folder of a "
                     "model, or --recipe");
  }
  if (moment.snapshot) {
    const bool are_live = std::ranges::all_of(options.assignments, is_layer_setting);
    if (!are_live || options.seed >= 0)
      throw UsageError(
          "a snapshot continues unchanged: --set and --seed need a new run (--preset or --recipe), except for "
          "settings of layers such as --set layers.0.gka.r=10");
    of_words([&] { add_layer_settings(*moment.snapshot, options.assignments); });
  } else if (!options.recipe.empty()) {
    moment = open_saved_run(options.recipe);
  } else if (options.snapshot.empty()) {
    moment.recipe = parse_recipe(find_preset(options.preset.empty() ? fallback : options.preset).text, "preset");
  }
  const Recipe before = moment.recipe;
  if (!moment.snapshot && !options.assignments.empty())
    moment.recipe = of_words([&] { return changed_recipe(moment.recipe, options.assignments, "recipe with --set"); });
  // After --set, which may have chosen the task that reads the file.
  if (!options.data.empty()) take_data(moment.own_recipe().task, options.data, options.is_elsewhere);
  if (!options.text_file.empty()) take_text(moment.own_recipe().task, options.text_file);
  const bool is_readable = !options.is_elsewhere || options.data.empty();
  if (!moment.snapshot && !options.assignments.empty() && is_readable) require_sound(moment.recipe, before);
  Recipe& recipe = set_precision(moment, common);
  if (options.seed >= 0) recipe.seed = static_cast<std::uint64_t>(options.seed);
  if (options.steps >= 0) change_setting(recipe.training, "steps", static_cast<double>(options.steps));
  return moment;
}

std::unique_ptr<Backend> chosen_backend(const CommonOptions& common) {
  std::unique_ptr<Backend> backend = make_backend(common.device, common.threads);
  if (!common.precision.empty() && !backend->set_precision(parse_precision(common.precision)))
    throw UsageError(backend->description(), " computes in fp32 only; --precision needs --device cuda");
  return backend;
}

std::unique_ptr<Backend> chosen_backend(const SavedRun& saved, const CommonOptions& common, Output& output) {
  std::unique_ptr<Backend> backend = chosen_backend(common);
  if (const std::string note = choose_precision(saved.own_recipe(), *backend); !note.empty()) output.note(note);
  return backend;
}

std::shared_ptr<const Machine> this_machine() {
  const CudaSystem cuda = cuda_devices();
  if (cuda.devices.empty()) return machine_with({{"cpu", make_cpu_backend()->description()}});
  return machine_with({{"cpu", make_cpu_backend()->description()}, {"cuda", cuda.devices.front().name}});
}

SessionOptions session_options(const CommonOptions& common) {
  return SessionOptions{.device = chosen_backend(common)->name(), .threads = common.threads};
}

std::function<void(const std::function<Snapshot()>& make)> keep_in(const std::filesystem::path& folder) {
  return [folder](const std::function<Snapshot()>& make) {
    try {
      const KeptRun kept = keep_run(folder, make());
      std::fprintf(stderr, "saved %s; continue with: afterglow %s\n", terminal_text(kept.label).c_str(),
                   terminal_text(kept.path.string()).c_str());
    } catch (const std::exception& problem) {
      std::fprintf(stderr, "afterglow: the run is not saved: %s\n", terminal_text(problem.what()).c_str());
    }
  };
}

void take_data(nlohmann::json& task, const std::string& file, bool is_elsewhere) {
  constexpr std::size_t largest_data = std::size_t{256} << 20;
  const std::string kind = task.is_object() ? task.value("kind", nlohmann::json()).dump() : task.dump();
  std::string with_files;
  for (const TaskInfo& known : task_kinds()) {
    if (!takes(known, "path")) continue;
    with_files += (with_files.empty() ? "" : ", ") + known.kind;
    if (nlohmann::json(known.kind).dump() != kind || !task.is_object()) continue;
    const std::string path = is_elsewhere ? file : std::filesystem::absolute(file).string();
    if (!is_utf8(path)) throw BadInput(path, ": a recipe stores names in UTF-8 only; rename the file or its folder");
    task["path"] = path;
    task.erase("hash");
    if (is_elsewhere) return;
    const std::string content = read_file(file, largest_data);
    task["hash"] = hex16(checksum(std::as_bytes(std::span(content))));
    return;
  }
  throw UsageError("task ", kind, " takes no --data; tasks that read a file are ", with_files,
                   "; `--recipe FILE.txt` takes a text with a model for it");
}

void take_text(nlohmann::json& task, const std::string& file) {
  take_data(task, file);
  if (task["kind"] == "ids") task["read"] = "text";
}

Existing existing_files(const CommonOptions& common) {
  return common.force ? Existing::replace_in_folder : Existing::keep;
}

void require_free_name(const std::filesystem::path& file, const CommonOptions& common) {
  require_writable(file);
  if (!common.force && std::filesystem::exists(std::filesystem::symlink_status(file)))
    throw BadInput(file.string(), ": this file exists already; --force replaces it");
}

void say_notes(const SavedRun& saved, Output& output) {
  for (const std::string& note : saved.notes) output.note(note);
}

nlohmann::json say_series(const Task& task, Output& output) {
  const SeriesWindows* series = task.windows();
  if (series == nullptr || series->source().rows_in_file == 0) return nlohmann::json::object();
  output.note("series: ", series->summary());
  return {{"channels", series->names()},
          {"time_columns", series->source().time_columns},
          {"rows_read", series->rows()},
          {"rows_in_file", series->source().rows_in_file}};
}

SavedRun open_with_weights(const std::string& path, std::int64_t step, const std::string& need,
                           const CommonOptions& common, Output& output, Use use) {
  SavedRun saved = open_saved_run(path, step);
  if (saved.origin && use == Use::only_run) saved.origin->keep_narrow();
  if (!saved.has_weights())
    throw BadInput(path, ": ", need, "; give a snapshot (.safetensors) or the folder of a model");
  set_precision(saved, common);
  say_notes(saved, output);
  return saved;
}

std::string_view stored_type(const TrainingRun& run) {
  return name_of(run.trainer().parameters().is_narrow() ? DType::bf16 : DType::f32);
}

SavedRun open_named(const std::string& word, std::int64_t step) {
  const bool is_file = std::filesystem::exists(word);
  const std::size_t at = word.rfind('@');
  const auto named = at == word.npos || is_file ? std::nullopt : parse_whole_number(word.substr(at + 1));
  if (named) return open_saved_run(word.substr(0, at), *named);
  const bool is_preset = std::ranges::any_of(presets(), [&](const Preset& one) { return one.name == word; });
  if (!is_file && is_preset) return {parse_recipe(find_preset(word).text, "preset"), std::nullopt};
  return open_saved_run(word, step);
}

OpeningRun opening_named(const std::string& word, double patience) {
  return open_aside(
      word, [word] { return open_named(word, newest_state); }, patience);
}

void make_folder(const std::filesystem::path& folder) {
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  if (failed)
    throw BadInput(folder.string(), ": cannot make this folder (", failed.message(), "); choose another with --out");
  require_writable(folder / "results");
}

}  // namespace afterglow
