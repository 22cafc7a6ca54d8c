// Opens files that hold a run, and chooses a back end.
#include "core/engine/training/saved/saved_run.h"

#include <algorithm>
#include <system_error>

#include "core/figure/files/figure_files.h"
#include "core/io/atomic_file.h"
#include "core/io/error.h"
#include "core/io/folders.h"
#include "core/io/json_file.h"
#include "core/io/terminal_text.h"
#include "core/models/checkpoints/checkpoint.h"
#include "core/recipe/run_notes.h"
#include "core/tasks/task.h"
#include "core/text/tokenizer.h"

namespace afterglow {
namespace {

CudaMaker cuda_maker = nullptr;

std::string extension_of(const std::filesystem::path& path) {
  std::string extension = path.extension().string();
  std::ranges::transform(extension, extension.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return extension;
}

SavedRun read_run(const nlohmann::json& recipe, const std::string& where) {
  SavedRun saved{parse_recipe(recipe, where), std::nullopt};
  if (recipe.contains("view")) saved.view = recipe["view"].dump();
  return saved;
}

/// Labels are for display only: without a readable tokenizer.json tokens are shown as numbers.
void leave_out_broken_labels(Recipe& recipe, std::vector<std::string>& notes) {
  if (!recipe.task.is_object() || !recipe.task.value("labels", nlohmann::json()).is_string()) return;
  try {
    shared_tokenizer(recipe.task["labels"].get<std::string>());
  } catch (const Error& error) {
    notes.push_back(std::string(error.what()) + "; until then tokens are shown as numbers");
    recipe.task.erase("labels");
  }
}

SavedRun read_model(const std::filesystem::path& path, const std::string& name = "") {
  const auto checkpoint = std::make_shared<Checkpoint>(path);
  return {checkpoint_recipe(*checkpoint, name), std::nullopt, "", checkpoint->notes(), checkpoint};
}

/// What the user wrote on the run in earlier sessions.
void add_notes(const std::filesystem::path& file, SavedRun& saved) {
  std::error_code unknown;
  Recipe& recipe = saved.own_recipe();
  if (!std::filesystem::exists(file, unknown)) return;
  try {
    Recipe noted;
    noted.commands = {{0, {"note", {{"notes", read_json(file).at("notes")}}}}};
    notes_of(noted);
    std::erase_if(recipe.commands, [](const TimedCommand& timed) { return timed.command.name == "note"; });
    recipe.commands.insert(recipe.commands.begin(), noted.commands.front());
  } catch (const std::exception& error) {
    saved.notes.push_back(file.string() + ": these notes are left out: " + error.what());
  }
}

SavedRun read_run_folder(std::shared_ptr<RunFolder> folder, std::int64_t step) {
  SavedRun saved = open_state(folder->at(step), folder->view()->name);
  const std::vector<std::string> notes = folder->notes();
  saved.notes.insert(saved.notes.end(), notes.begin(), notes.end());
  if (!saved.snapshot) {
    saved.recipe.training.steps = std::clamp<std::int64_t>(folder->planned_steps(), 1, max_steps);
    saved.notes.push_back("the folder has the weights of " + std::to_string(folder->states().size()) +
                          " steps; the task and the state of the optimiser are not known here");
  }
  add_notes(folder->notes_file(), saved);
  saved.folder = std::move(folder);
  return saved;
}

SavedRun read_saved_run(const std::filesystem::path& path, std::int64_t step, std::shared_ptr<RunFolder> folder) {
  std::error_code unknown;
  if (folder || std::filesystem::is_directory(path, unknown)) {
    if (!folder) folder = std::make_shared<RunFolder>(path);
    const bool is_plain = step == no_step && folder->is_model();
    if (folder->is_run() && !is_plain) return read_run_folder(std::move(folder), step == no_step ? newest_state : step);
    if (step == no_step || step == newest_state) return read_model(path);
  }
  if (step != no_step && step != newest_state)
    throw UsageError(path.string(), ": --step chooses among the checkpoints of a folder, and this is no such folder");
  const std::string extension = extension_of(path);
  if (extension == ".safetensors") {
    // Files of another program may share a config.json; model.safetensors is opened by its folder.
    const bool shares = path.filename() != "model.safetensors" && !folder_of_config(path).empty();
    if (shares && !MappedTensors(path).metadata().contains("afterglow.recipe")) return read_model(path);
    return open_state({.path = path, .is_snapshot = true});
  }
  if (extension == ".npz")
    throw BadInput(path.string(),
                   ": arrays of NumPy are not opened; write them as model.safetensors into a folder with "
                   "the model's config.json (in Python: afterglow.save_tensors(file, "
                   "dict(numpy.load(npz))))");
  if (extension == ".json" && is_checkpoint_file(path))
    throw BadInput(path.string(), ": this is a part of another library's model; give its ",
                   "folder: ", std::filesystem::absolute(path).parent_path().string());
  if (extension == ".json") return read_run(read_json(path), path.string());
  if (format_of(extension)) {
    const std::optional<std::string> recipe = read_recipe(path);
    if (!recipe)
      throw BadInput(path.string(),
                     ": this file carries no Afterglow recipe; only figures that Afterglow exported can be reopened");
    const std::string where = path.string() + ": recipe";
    return read_run(parse_json(*recipe, where), where);
  }
  if (!std::filesystem::exists(path, unknown)) refuse_missing_file(path);
  if (extension == ".txt") return read_text(path);
  throw BadInput(path.string(),
                 ": unknown kind of file; give a snapshot (.safetensors), a recipe (.json), an exported "
                 "figure (.svg, .pdf, .png, .csv), a text (.txt) or the folder of a model");
}

/// The number of a tokenizer's tokens, with the gaps between their ids.
std::uint32_t vocabulary(const std::filesystem::path& file) {
  std::uint32_t largest = 0;
  for (const Tokenizer::Token& token : shared_tokenizer(file)->tokens()) largest = std::max(largest, token.id);
  return largest + 1;
}

}  // namespace

Recipe checkpoint_recipe(const Checkpoint& checkpoint, const std::string& name) {
  Recipe recipe;
  recipe.name = file_name_of(name.empty() ? checkpoint.folder_name() : name, 60);
  if (recipe.name.empty()) recipe.name = "model";
  recipe.checkpoint = checkpoint.origin();
  const std::string type = recipe.checkpoint["config"].value("model_type", checkpoint.library());
  recipe.title = checkpoint.library() + (type == checkpoint.library() ? "" : " " + type) + " · " + recipe.name;
  recipe.about = "A model that " + checkpoint.library() + " saved, with its weights.";
  recipe.model = checkpoint.model();
  recipe.task = checkpoint.task().is_null()
                    ? nlohmann::json{{"kind", "ids"}, {"vocab", recipe.model["vocab"]}, {"length", 64}}
                    : checkpoint.task();
  if (const std::filesystem::path labels = checkpoint.tokenizer();
      checkpoint.task().is_null() && !labels.empty() && is_utf8(labels.string()))
    recipe.task["labels"] = labels.string();
  recipe.shown_step = 0;
  // Small values, because the weights are already trained.
  recipe.training.batch = 4;
  recipe.training.learning_rate = 1e-4;
  recipe.training.warmup = 10;
  recipe.training.evaluate_examples = 16;
  return recipe;
}

SavedRun read_text(const std::filesystem::path& path) {
  nlohmann::json recipe = nlohmann::json::parse(find_preset("tiny-echo").text);
  recipe["name"] = path.filename().string();
  recipe["title"] = "A text of your own";
  const std::filesystem::path file = std::filesystem::absolute(path), tokens = file.parent_path() / "tokenizer.json";
  const bool has_tokens = std::filesystem::exists(tokens);
  recipe["about"] =
      std::string("A small model that learns a text, ") + (has_tokens ? "token by token." : "character by character.");
  recipe["task"] = {{"kind", "text"}, {"path", file.string()}, {"length", 64}};
  if (has_tokens)
    recipe["task"].update(
        {{"kind", "ids"}, {"read", "text"}, {"labels", tokens.string()}, {"vocab", vocabulary(tokens)}});
  recipe["model"]["vocab"] = make_task(recipe["task"])->vocab();
  SavedRun run = read_run(recipe, path.string());
  if (has_tokens) run.notes.push_back("the text is cut into the tokens of " + tokens.string());
  return run;
}

SavedRun open_state(const StoredState& state, const std::string& name) {
  if (state.is_snapshot) {
    Snapshot snapshot = read_snapshot(state.path);
    return {snapshot.recipe, std::move(snapshot)};
  }
  SavedRun saved = read_model(state.path, name);
  saved.recipe.checkpoint["step"] = saved.recipe.shown_step = state.step;
  return saved;
}

SavedRun open_saved_run(const std::filesystem::path& path, std::int64_t step, std::shared_ptr<RunFolder> folder) {
  SavedRun saved = read_saved_run(path, step, std::move(folder));
  leave_out_broken_labels(saved.recipe, saved.notes);
  if (saved.snapshot) saved.snapshot->recipe.task = saved.recipe.task;
  return saved;
}

OpeningRun open_aside(const std::string& name, std::function<SavedRun()> open, double patience) {
  auto read = [open = std::move(open)] { return std::make_shared<SavedRun>(open()); };
  OpeningRun opening{name, std::async(std::launch::async | std::launch::deferred, std::move(read))};
  if (opening.run.wait_for(std::chrono::duration<double>(patience)) != std::future_status::timeout) opening.run.get();
  return opening;
}

void register_cuda_maker(CudaMaker maker) { cuda_maker = maker; }

std::unique_ptr<Backend> make_backend(const std::string& device, int threads) {
  if (device == "cpu") return make_cpu_backend(threads);
  if (device != "cuda" && device != "auto") throw UsageError("device \"", device, "\": choose auto, cpu or cuda");
  std::string why_not = "this program was built without CUDA";
  if (cuda_maker) {
    if (std::unique_ptr<Backend> backend = cuda_maker(&why_not)) return backend;
  }
  if (device == "cuda")
    throw Error(ExitCode::no_gpu, "no usable GPU: ", why_not, "; --device cpu runs everything on the processor");
  return make_cpu_backend(threads);
}

std::string choose_precision(const Recipe& recipe, Backend& backend) {
  if (backend.set_precision(recipe.precision)) return "";
  return concat("the recipe asks for ", name_of(recipe.precision), ", and ", backend.description(),
                " computes in fp32 only: its numbers are those of fp32");
}

}  // namespace afterglow
