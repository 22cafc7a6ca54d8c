// Reads, checks and writes recipes.
#include "core/recipe/recipe.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <span>
#include <variant>

#include "core/io/checksum.h"
#include "core/io/error.h"
#include "core/io/json.h"
#include "core/io/json_file.h"
#include "core/io/named.h"
#include "core/io/number_text.h"
#include "core/io/terminal_text.h"
#include "core/io/wording.h"
#include "core/layers/forecaster.h"
#include "core/layers/layer_kind.h"
#include "core/models/model.h"

namespace afterglow {
namespace {

constexpr std::size_t max_name_bytes = 100;  // leaves room for seed, step and extension in a file's name

int parse_shards(const json& source, const std::string& where) {
  const std::int64_t shards = get_integer(source, "shards", 1, 1, 8, where);
  if (shards != 1 && shards != 8)
    throw BadInput(where, ".shards: a batch is cut into 8 parts or not at all (1), got ", shards);
  return static_cast<int>(shards);
}

std::vector<std::string> recipe_fields() {
  return {"version",  "name",       "title",     "about", "seed", "model",      "task",   "training",
          "commands", "shown_step", "precision", "probe", "view", "checkpoint", "shards", "recompute"};
}

std::vector<std::string> names_of_settings() { return names_of(training_settings(), &SettingSpec::key); }

TrainingConfig parse_training(const json& config, const std::string& where) {
  TrainingConfig training;
  refuse_unknown_keys(config, names_of_settings(), where);
  for (const auto& [key, value] : config.items()) {
    if (!value.is_number()) throw BadInput(where, ".", key, ": expected a number, got ", value.dump());
    try {
      change_setting(training, key, value.get<double>());
    } catch (const Error& error) {
      throw BadInput(where, ".", error.what());
    }
  }
  return training;
}

std::vector<TimedCommand> parse_commands(const json& list, const std::string& where) {
  if (!list.is_array()) throw BadInput(where, ": expected a list of commands with their steps");
  std::vector<TimedCommand> commands;
  for (const json& entry : list) {
    const std::string here = where + "[" + std::to_string(commands.size()) + "]";
    const std::int64_t step = get_integer(entry, "step", std::nullopt, 0, max_steps, here);
    if (!commands.empty() && step < commands.back().step)
      throw BadInput(here, ".step: commands must be in the order of their steps");
    try {
      commands.push_back({step, parse_command(entry)});
    } catch (const Error& error) {
      throw Error(error.code(), here, ", the command of step ", step, ": ", error.what());
    }
  }
  return commands;
}

/// Files are named after a recipe from any source: its name must not leave the folder of results.
std::string parse_name(const json& source, const std::string& where) {
  const std::string name = get_string(source, "name", "unnamed", where);
  std::string wrong;
  if (name.empty()) wrong = "is empty";
  if (name.size() > max_name_bytes) wrong = "is longer than " + std::to_string(max_name_bytes) + " bytes";
  if (name.starts_with('.')) wrong = "begins with a dot";
  if (name.find('/') != std::string::npos) wrong = "holds a slash";
  for (std::size_t i = 0; i < name.size(); ++i) {
    if (is_control(name, i)) wrong = "holds a control character";
  }
  if (wrong.empty()) return name;
  throw BadInput(where, ".name: it ", wrong,
                 ", and files are named after it; choose a name such as \"my-run\" in the recipe");
}

}  // namespace

double TrainingConfig::rate_at(std::int64_t step) const {
  if (step <= warmup)
    return learning_rate * static_cast<double>(step) / static_cast<double>(std::max<std::int64_t>(warmup, 1));
  if (halve_every > 0) return std::ldexp(learning_rate, -static_cast<int>((step - 1) / halve_every));
  const double span = static_cast<double>(std::max<std::int64_t>(steps - warmup, 1));
  const double progress = std::min(1.0, static_cast<double>(step - warmup) / span);
  return learning_rate * (final_rate + (1.0 - final_rate) * 0.5 * (1.0 + std::cos(std::numbers::pi * progress)));
}

const std::vector<SettingSpec>& training_settings() {
  using Config = TrainingConfig;
  constexpr auto most = static_cast<double>(max_steps);
  static const std::vector<SettingSpec> specs = {
      {"learning_rate", "learning rate", "peak learning rate (warm-up, then cosine)", &Config::learning_rate, 1e-7, 1.0,
       true},
      {"batch", "batch", "sequences in a training step", &Config::batch, 1, 4096, true},
      {"clip", "clip", "maximal global gradient norm; 0 switches clipping off", &Config::clip, 0, 1000},
      {"weight_decay", "weight decay", "AdamW's weight decay of matrices", &Config::weight_decay, 0, 1},
      {"steps", "steps", "last training step; the cosine ends there", &Config::steps, 1, most, true},
      {"warmup", "warm-up", "steps in which the rate rises to its peak", &Config::warmup, 0, most},
      {"final_rate", "final rate", "share of the peak at which the cosine ends", &Config::final_rate, 0, 1},
      {"beta1", "β₁", "decay of AdamW's first moment", &Config::beta1, 0, 0.9999999},
      {"beta2", "β₂", "decay of AdamW's second moment", &Config::beta2, 0, 0.9999999},
      {"epsilon", "AdamW ε", "AdamW's guard against division by zero", &Config::epsilon, 1e-16, 1, true},
      {"evaluate_every", "evaluate every", "steps between held-out evaluations; 0: never", &Config::evaluate_every, 0,
       most},
      {"evaluate_examples", "held-out examples", "sequences in a held-out evaluation", &Config::evaluate_examples, 1,
       65536},
      {"patience", "patience",
       "training ends after this many held-out evaluations without improvement, and keeps the best; 0: train all steps",
       &Config::patience, 0, 1000},
      {"halve_every", "halving", "steps after which the rate halves, in place of the cosine; 0: cosine",
       &Config::halve_every, 0, most}};
  return specs;
}

const SettingSpec* find_setting(std::string_view key) { return find_by(training_settings(), key, &SettingSpec::key); }

std::string label_of_field(const std::string& field) {
  if (const SettingSpec* setting = find_setting(field)) return setting->label;
  const std::size_t number = field.find('.') + 1, kind = field.find('.', number) + 1, key = field.rfind('.') + 1;
  if (!field.starts_with("layers.") || kind >= key) return field;
  const std::string layer = field.substr(kind, key - 1 - kind);
  std::string label = field.substr(key);
  if (const LayerKind* const known = find_layer_kind(layer)) {
    ParameterStore parameters;
    const auto small = make_layer(known->name, small_layer_config(*known, 16), ParameterScope(parameters, ""));
    for (const LayerSetting& setting : small->settings()) {
      if (setting.key == label) label = setting.label.substr(0, setting.label.find(" ("));
    }
  }
  return label + ", " + field.substr(number, kind - 1 - number) + " " + layer;
}

double get_setting(const TrainingConfig& config, std::string_view key) {
  const SettingSpec* spec = find_setting(key);
  if (!spec) throw BadInput(key, ": there is no such hyperparameter");
  return std::visit([&](auto member) { return static_cast<double>(config.*member); }, spec->member);
}

void change_setting(TrainingConfig& config, std::string_view key, double value) {
  const SettingSpec* spec = find_setting(key);
  if (!spec) throw BadInput(key, ": there is no such hyperparameter", which_there_are(key, names_of_settings()));
  if (!(value >= spec->minimum && value <= spec->maximum) || (spec->is_integer() && value != std::floor(value)))
    throw BadInput(key, ": expected ", (spec->is_integer() ? "a whole number" : "a number"), " from ",
                   json(spec->minimum).dump(), " to ", json(spec->maximum).dump(), ", got ", json(value).dump());
  std::visit([&](auto member) { config.*member = static_cast<std::decay_t<decltype(config.*member)>>(value); },
             spec->member);
}

Precision parse_precision(const std::string& name) {
  for (const Precision precision : {Precision::fp32, Precision::tf32, Precision::bf16}) {
    if (name == name_of(precision)) return precision;
  }
  throw BadInput("precision \"", name, "\": choose fp32, tf32 or bf16");
}

Recipe parse_recipe(const json& source, const std::string& where) {
  if (!source.is_object()) throw BadInput(where, ": a recipe is a JSON object with model, task and training");
  refuse_unknown_keys(source, recipe_fields(), where);
  if (source.contains("view") && !source["view"].is_object())
    throw BadInput(where, ".view: expected an object, as an exported figure carries it");
  const std::int64_t version = get_integer(source, "version", 1, 1, 1000, where);
  if (version != 1)
    throw BadInput(where, ".version: this program reads version 1, the recipe is version ", version,
                   "; use a newer program");
  for (const char* part : {"model", "task"}) {
    if (!source.contains(part)) throw BadInput(where, ": the field \"", part, "\" is missing");
  }
  Recipe recipe;
  recipe.name = parse_name(source, where);
  recipe.title = get_string(source, "title", recipe.name, where);
  recipe.about = get_string(source, "about", "", where);
  recipe.seed = static_cast<std::uint64_t>(get_integer(source, "seed", 7, 0, largest_seed, where));
  recipe.model = source["model"];
  recipe.task = source["task"];
  recipe.training = parse_training(source.value("training", json::object()), where + ".training");
  recipe.commands = parse_commands(source.value("commands", json::array()), where + ".commands");
  recipe.precision = parse_precision(get_string(source, "precision", "fp32", where));
  recipe.shown_step = get_integer(source, "shown_step", -1, -1, max_steps, where);
  recipe.shards = parse_shards(source, where);
  recipe.recompute = static_cast<int>(get_integer(source, "recompute", 0, 0, max_blocks, where));
  recipe.inspected = source.value("probe", json());
  recipe.checkpoint = source.value("checkpoint", json());
  if (!recipe.checkpoint.is_null()) {
    refuse_unknown_keys(recipe.checkpoint, {"path", "hash", "library", "config", "step"}, where + ".checkpoint");
    get_integer(recipe.checkpoint, "step", 0, 0, max_steps, where + ".checkpoint");
  }
  return recipe;
}

Recipe parse_recipe(const std::string& text, const std::string& where) {
  return parse_recipe(parse_json(text, where), where);
}

json to_json(const Recipe& recipe) {
  json training = json::object();
  for (const SettingSpec& spec : training_settings()) {
    const double value = get_setting(recipe.training, spec.key);
    // Younger than finished runs, which are found by their recipes' hashes.
    if (spec.key == std::string_view("halve_every") && value == 0) continue;
    training[spec.key] = spec.is_integer() ? json(static_cast<std::int64_t>(value)) : json(value);
  }
  json commands = json::array();
  for (const TimedCommand& timed : recipe.commands) {
    commands.push_back(to_json(timed.command));
    commands.back()["step"] = timed.step;
  }
  json result = {{"version", 1},          {"name", recipe.name}, {"title", recipe.title}, {"seed", recipe.seed},
                 {"model", recipe.model}, {"task", recipe.task}, {"training", training},  {"commands", commands}};
  if (recipe.precision != Precision::fp32) result["precision"] = name_of(recipe.precision);
  if (recipe.shards != 1) result["shards"] = recipe.shards;
  if (recipe.recompute != 0) result["recompute"] = recipe.recompute;
  if (!recipe.about.empty()) result["about"] = recipe.about;
  if (!recipe.inspected.is_null()) result["probe"] = recipe.inspected;
  if (!recipe.checkpoint.is_null()) result["checkpoint"] = recipe.checkpoint;
  if (recipe.shown_step >= 0) result["shown_step"] = recipe.shown_step;
  return result;
}

bool changes_training(const Command& command) {
  return command.name == "set" || command.name == "skip" || command.name == "surgery" || command.name == "freeze";
}

std::int64_t common_step(const Recipe& a, const Recipe& b) {
  const auto beginning = [](Recipe recipe) {
    recipe.commands.clear();
    recipe.shown_step = -1;
    recipe.inspected = nullptr;
    return without_words(to_json(recipe));
  };
  if (beginning(a) != beginning(b)) return -1;
  const auto changes = [](const Recipe& recipe) {
    std::vector<TimedCommand> all = recipe.commands;
    std::erase_if(all, [](const TimedCommand& timed) { return !changes_training(timed.command); });
    return all;
  };
  const std::vector<TimedCommand> of_a = changes(a), of_b = changes(b);
  const auto [first, second] = std::ranges::mismatch(of_a, of_b, [](const TimedCommand& x, const TimedCommand& y) {
    return x.step == y.step && x.command == y.command;
  });
  std::int64_t common = std::numeric_limits<std::int64_t>::max();
  if (first != of_a.end()) common = first->step;
  if (second != of_b.end()) common = std::min(common, second->step);
  return common;
}

std::string carried_text(const Recipe& recipe) {
  json carried = to_json(recipe);
  const auto leave_name = [](json& of) {
    if (of.contains("path") && of["path"].is_string())
      of["path"] = std::filesystem::path(of["path"].get<std::string>()).filename().string();
  };
  json& task = carried["task"];
  leave_name(task);
  if (task.is_object()) task.erase("labels");  // the model's folder has them
  if (carried.contains("checkpoint")) {
    leave_name(carried["checkpoint"]);
    json& config = carried["checkpoint"]["config"];
    if (config.is_object()) config.erase("_name_or_path");  // where the model was saved from
  }
  return carried.dump();
}

json without_words(json recipe) {
  if (!recipe.is_object()) return recipe;
  recipe["title"] = recipe["name"];
  recipe.erase("about");
  return recipe;
}

std::string siblings_key(const Recipe& recipe) {
  Recipe common = recipe;
  common.seed = 0;
  common.shown_step = -1;
  common.inspected = {};
  std::erase_if(common.commands,
                [](const TimedCommand& timed) { return timed.command.name != "set" && timed.command.name != "skip"; });
  const std::string text = without_words(to_json(common)).dump();
  return hex16(checksum(std::as_bytes(std::span(text))));
}

bool is_layer_setting(const std::string& assignment) {
  return assignment.starts_with("layers.") || assignment.starts_with("memory.");
}

namespace {

/// "layers.0.gka.r=5": a change before the first step, as the window's slider makes it.
void add_layer_setting(json& recipe, const std::string& key, const json& value) {
  if (!value.is_number()) throw UsageError("--set ", key, "=", value.dump(), ": a number of a layer is a number");
  json& commands = recipe["commands"];
  if (!commands.is_array()) commands = json::array();
  const auto later = std::ranges::find_if(commands, [](const json& command) {
    const json step = command.is_object() ? command.value("step", json()) : json();
    return step.is_number() && step > 0;
  });
  commands.insert(later, json{{"step", 0}, {"name", "set"}, {"value", {{"key", key}, {"to", value}}}});
}

/// Throws unless `key` (which names nothing inside a part) is a field of the recipe or one of its optional fields.
void require_field(const json& recipe, const std::string& key) {
  std::vector<std::string> known = recipe_fields();
  if (key.find('.') != std::string::npos || std::ranges::find(known, key) != known.end()) return;
  const std::vector<std::string> settings = names_of_settings();
  known.insert(known.begin(), settings.begin(), settings.end());
  if (const json task = recipe.value("task", json()); task.is_object()) {
    for (const auto& [field, value] : task.items()) known.push_back(field);
  }
  throw BadInput("--set ", key, ": the recipe has no field ", in_quotes(key), which_there_are(key, known));
}

}  // namespace

void apply_assignment(json& recipe, const std::string& assignment) {
  const std::size_t equals = assignment.find('=');
  if (equals == std::string::npos || equals == 0)
    throw UsageError("--set ", assignment, ": expected key=value, for example learning_rate=1e-3");
  std::string key = assignment.substr(0, equals);
  const std::string text = assignment.substr(equals + 1);
  if (!is_utf8(assignment)) throw UsageError("--set ", assignment, ": this is not UTF-8 text");
  json value = json::parse(text, nullptr, false);
  if (value.is_discarded()) value = text;
  if (is_layer_setting(assignment)) return add_layer_setting(recipe, key, value);
  if (find_setting(key)) key = "training." + key;
  const bool of_task = recipe.contains("task") && recipe["task"].is_object() && recipe["task"].contains(key);
  if (of_task && key != "kind") key = "task." + key;
  require_field(recipe, key);
  json* place = &recipe;
  std::size_t begin = 0;
  for (std::size_t dot = key.find('.'); dot != std::string::npos; begin = dot + 1, dot = key.find('.', begin)) {
    const std::string part = key.substr(begin, dot - begin);
    if (place->is_array()) {
      const std::optional<std::int64_t> index = parse_whole_number(part);
      if (!index || *index < 0 || static_cast<std::size_t>(*index) >= place->size())
        throw UsageError("--set ", key, ": there is no element ", part);
      place = &(*place)[static_cast<std::size_t>(*index)];
    } else {
      if (!place->is_object() || !place->contains(part))
        throw UsageError("--set ", key, ": the recipe has no \"", part, "\"");
      place = &(*place)[part];
    }
  }
  if (!place->is_object()) throw UsageError("--set ", key, ": this field cannot be set");
  (*place)[key.substr(begin)] = value;
}

Recipe changed_recipe(const Recipe& recipe, const std::vector<std::string>& assignments, const std::string& where) {
  json changed = to_json(recipe);
  for (const std::string& assignment : assignments) apply_assignment(changed, assignment);
  return parse_recipe(changed, where);
}

const Preset& find_preset(const std::string& name) {
  return entry_named(presets(), name, &Preset::name, ExitCode::usage, "there is no preset ");
}

namespace {

/// Whether a part of the model's configuration names a kind with one of these traits.
bool names_kind_that_shows(const json& part, LayerTraits any) {
  if (part.is_object() && part.contains("kind") && shows(part["kind"].get<std::string>(), any)) return true;
  return part.is_structured() &&
         std::ranges::any_of(part, [&](const json& inner) { return names_kind_that_shows(inner, any); });
}

}  // namespace

bool shows(const Preset& preset, LayerTraits any) {
  const json model = json::parse(preset.text).at("model");
  const LayerTrait whole = is_forecaster(model) ? LayerTrait::series : LayerTrait::tokens;
  const bool has_memory = model.contains("memory") && any.overlaps(LayerTrait::training_memory);
  return any.overlaps(whole) || has_memory || names_kind_that_shows(model, any);
}

const Preset* first_preset_that_shows(LayerTraits any) {
  return find_where(presets(), [&](const Preset& preset) { return shows(preset, any); });
}

}  // namespace afterglow
