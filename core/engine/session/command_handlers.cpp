// Reads the values of commands and calls the worker.
#include "core/engine/session/command_handlers.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "core/engine/recipe/recipe_text.h"
#include "core/engine/session/session_worker.h"
#include "core/io/atomic_file.h"
#include "core/io/error.h"
#include "core/io/folders.h"
#include "core/io/json_file.h"

namespace afterglow {

namespace {

using nlohmann::json;

/// A whole number in a command's value; the fallback if it is absent or no number.
std::int64_t integer_in(const json& value, const char* key, std::int64_t fallback) {
  if (!value.contains(key) || !value[key].is_number()) return fallback;
  constexpr double most = 9e15;
  return static_cast<std::int64_t>(std::clamp(value[key].get<double>(), -most, most));
}

/// The index of a part or head, at least `low`; otherwise as `integer_in`.
int index_in(const json& value, const char* key, std::int64_t low) {
  return static_cast<int>(std::clamp<std::int64_t>(integer_in(value, key, low), low, 1 << 20));
}

std::string text_in(const json& value, const char* key, const std::string& fallback) {
  return value.contains(key) && value[key].is_string() ? value[key].get<std::string>() : fallback;
}

/// At the end of a run it reports why nothing happens.
void run(SessionWorker& worker, const Command&, const json&) {
  const TrainingRun& run = worker.run();
  if (run.folder() || !run.finished()) return worker.start(-1);
  const bool is_at_last_step = run.step() >= run.trainer().config().steps;
  worker.report(Severity::info, is_at_last_step
                                    ? "Done · raise steps to continue"
                                    : "Done: no better result within the patience · raise patience to continue");
}

void toggle_run(SessionWorker& worker, const Command& command, const json& value) {
  if (worker.run().folder()) return worker.follow(!worker.follows());
  if (worker.control().running()) return worker.control().pause();
  run(worker, command, value);
}

void speed(SessionWorker& worker, const Command&, const json& value) {
  if (const std::int64_t by = integer_in(value, "by", 0); by != 0)
    return worker.control().change_speed(std::clamp<std::int64_t>(by, -10, 10));
  if (!value.contains("to") || !value["to"].is_number() || !(value["to"].get<double>() >= 0))
    throw Error(ExitCode::bad_input, R"(speed takes {"to": 10}, steps a second; 0 means as fast as it goes)");
  worker.control().limit_speed(value["to"].get<double>());
}

void step(SessionWorker& worker, const Command&, const json& value) {
  worker.train_more(std::max<std::int64_t>(1, integer_in(value, "count", 1)));
}

void run_to(SessionWorker& worker, const Command&, const json& value) {
  const std::int64_t step = std::max<std::int64_t>(0, integer_in(value, "step", worker.run().step()));
  if (step > worker.run().step()) return worker.go_to(step);
  worker.start(step);
}

void rewind(SessionWorker& worker, const Command&, const json& value) {
  const std::int64_t by = std::max<std::int64_t>(1, integer_in(value, "by", 1));
  if (worker.run().folder() && value.contains("by")) return worker.move_by(-by);
  worker.go_to(value.contains("by") ? worker.aim() - by : integer_in(value, "step", 0));
}

void discard(SessionWorker& worker, const Command&, const json& value) { worker.discard(text_in(value, "run", "")); }

void reseed(SessionWorker& worker, const Command&, const json& value) {
  const auto next = static_cast<std::int64_t>(worker.run().recipe().seed) + 1;
  worker.restart(
      static_cast<std::uint64_t>(std::clamp<std::int64_t>(integer_in(value, "seed", next), 0, largest_seed)));
}

void set(SessionWorker& worker, const Command& command, const json& value) {
  if (const auto* wanted = std::get_if<SetNumber>(&command.typed))
    return worker.change(wanted->key, wanted->to, wanted->is_live);
  if (!value.contains("key") || !value["key"].is_string() || !value.contains("to") || !value["to"].is_number()) {
    throw Error(ExitCode::bad_input, "set takes {\"key\": \"learning_rate\", \"to\": 0.001}");
  }
  worker.change(value["key"].get<std::string>(), value["to"].get<double>(),
                value.contains("live") && value["live"] == true);
}

void skip(SessionWorker& worker, const Command&, const json& value) {
  worker.leave_out_batch(integer_in(value, "step", worker.run().step() + 1));
}

void freeze(SessionWorker& worker, const Command&, const json& value) {
  const std::string part = text_in(value, "part", "");
  if (part.empty()) throw Error(ExitCode::bad_input, R"(freeze takes {"part": "1 ska"}, the label of a part)");
  worker.freeze(part, !(value.contains("on") && value["on"] == false));
}

void surgery(SessionWorker& worker, const Command&, const json& value) { worker.operate(value); }

void undo(SessionWorker& worker, const Command&, const json&) {
  if (!worker.analysed().undo()) return worker.report(Severity::info, "there is nothing to undo");
  worker.analyse_afresh();
}

void redo(SessionWorker& worker, const Command&, const json&) {
  if (!worker.analysed().redo()) return worker.report(Severity::info, "there is nothing to redo");
  worker.analyse_afresh();
}

void load(SessionWorker& worker, const Command&, const json& value) {
  const std::string path = text_in(value, "path", ""), preset = text_in(value, "preset", "");
  if (!path.empty()) return worker.open(open_saved_run(path, newest_state));
  if (value.contains("recipe"))
    return worker.open_recipe(parse_recipe(value["recipe"], "recipe"), value.value("alone", json()) == true);
  if (preset.empty())
    throw Error(ExitCode::bad_input, "load takes {\"preset\": \"tiny\"} or {\"path\": \"run.safetensors\"}");
  worker.open({parse_recipe(find_preset(preset).text, "preset"), std::nullopt});
  worker.control().resume(worker.options().start_running);
}

void compare(SessionWorker& worker, const Command&, const json& value) {
  constexpr std::int64_t max_seeds = 32;  // as many runs as are kept
  if (value.contains("seeds"))
    return worker.compare_seeds(get_integer(value, "seeds", std::nullopt, 1, max_seeds, "compare"));
  std::vector<std::string> names;
  if (value.contains("presets") && value["presets"].is_array()) {
    for (const json& name : value["presets"])
      names.push_back(find_preset(name.is_string() ? name.get<std::string>() : name.dump()).name);
  }
  if (names.empty())
    throw Error(ExitCode::bad_input,
                R"(compare takes {"presets": ["tiny-ssm", "tiny"]}, `afterglow info` lists them, or {"seeds": 5})");
  worker.compare(names);
}

void save(SessionWorker& worker, const Command&, const json& value) {
  const TrainingRun& run = worker.run();
  const std::string path = text_in(value, "path", "");
  if (!path.empty()) return worker.save(path, Existing::replace_in_folder);
  const std::filesystem::path& folder = worker.options().save_folder;
  std::error_code ignored;  // the snapshot reports a folder that cannot be created
  if (!folder.empty()) std::filesystem::create_directories(folder, ignored);
  worker.save(folder / (snapshot_stem(run.recipe(), run.step()) + ".safetensors"), Existing::keep);
}

/// Commands that change what is inspected, and nothing of the run.
void edit_inspection(SessionWorker& worker, const Command& command, const json&) {
  worker.analysed().change_inspection(command);
  worker.scheduler().note_edit();
}

void choose_inspected(SessionWorker& worker, const Command&, const json& value) {
  worker.analysed().choose_inspected(value);
  worker.analyse_afresh();
}

void choose_trace(SessionWorker& worker, const Command&, const json& value) {
  worker.analysed().choose_trace(index_in(value, "layer", -1));
  worker.analyse_afresh();
}

/// Commands that set what an analysis measures, start it, or open a run that it has trained.
void ask(SessionWorker& worker, const Command& command, const json&) {
  worker.scheduler().retry();
  if (std::optional<Recipe> recipe = worker.analysed().opened_by(command)) return worker.open({*recipe, {}});
  worker.analysed().ask(command);
}

/// The same; a study of the steps of training needs some.
void ask_of_training(SessionWorker& worker, const Command& command, const json& value) {
  if (worker.run().latest_step() <= worker.run().oldest_step())
    return worker.report(Severity::info, "train some steps first; then the effect of every batch can be measured");
  ask(worker, command, value);
}

/// The same for quick analyses, which follow at once.
void ask_afresh(SessionWorker& worker, const Command& command, const json&) {
  worker.analysed().ask(command);
  worker.analyse_afresh();
}

void stop_when(SessionWorker& worker, const Command&, const json& value) { worker.analysed().choose_stop(value); }

}  // namespace

CommandHandler find_handler(std::string_view name) {
  static const std::map<std::string_view, CommandHandler> table = {
      {"run", run},
      {"pause", [](SessionWorker& worker, const Command&, const json&) { worker.control().pause(); }},
      {"toggle_run", toggle_run},
      {"step", step},
      {"run_to", run_to},
      {"rewind", rewind},
      {"speed", speed},
      {"discard", discard},
      {"reset", [](SessionWorker& worker, const Command&, const json&) { worker.restart(worker.run().recipe().seed); }},
      {"reseed", reseed},
      {"branch", [](SessionWorker& worker, const Command&, const json&) { worker.branch(); }},
      {"set", set},
      {"skip", skip},
      {"freeze", freeze},
      {"surgery", surgery},
      {"undo", undo},
      {"redo", redo},
      {"load", load},
      {"compare", compare},
      {"gka_figure6",
       [](SessionWorker& worker, const Command&, const json&) {
         worker.compare({"gka-constant", "gka-adaptive"});
       }},
      {"save", save},
      {"device", [](SessionWorker& worker, const Command&,
                    const json& value) { worker.change_device(text_in(value, "name", "auto")); }},
      {"precision",
       [](SessionWorker& worker, const Command&, const json& value) {
         worker.change_precision(parse_precision(text_in(value, "name", "fp32")));
       }},
      {"probe", choose_inspected},
      {"trace", choose_trace},
      {"influence", ask_afresh},
      {"compare_runs", ask_afresh},
      {"blame", ask_of_training},
      {"measure", ask},
      {"stop_when", stop_when},
      {"theory", [](SessionWorker& worker, const Command&, const json& value) {
         worker.analysed().choose_theory(index_in(value, "layer", -1), index_in(value, "head", 0));
       }}};
  if (edits_inspection(name)) return edit_inspection;
  const auto found = table.find(name);
  if (found != table.end()) return found->second;
  return find_settings(name) ? ask : nullptr;
}

}  // namespace afterglow
