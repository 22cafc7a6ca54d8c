// A recipe reproduces a run bit for bit: model, task, training settings, seed, and the commands at their steps.
#pragma once
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <variant>
#include <vector>

#include "core/backend/backend.h"
#include "core/layers/layer_traits.h"
#include "core/recipe/command.h"

namespace afterglow {

/// Maximal number of steps of a training.
constexpr std::int64_t max_steps = 100'000'000;

/// Larger integers are not exact in JSON, so a recipe could not carry its seed.
constexpr std::int64_t largest_seed = std::int64_t{1} << 53;

struct TrainingConfig {
  std::int64_t steps = 1000;
  std::int64_t batch = 16;
  double learning_rate = 3e-4;   ///< peak of the schedule
  std::int64_t warmup = 100;     ///< steps of linear warm-up
  double final_rate = 0.1;       ///< the cosine ends at this share of the peak
  std::int64_t halve_every = 0;  ///< steps after which the rate halves, in place of the cosine; 0: cosine
  double weight_decay = 0.01;
  double clip = 1.0;  ///< global gradient norm; 0: no clipping
  double beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8;
  std::int64_t evaluate_every = 50;  ///< steps between held-out evaluations; 0: never
  std::int64_t evaluate_examples = 64;
  /// Training ends after this many held-out evaluations in a row without improvement, and the step of the best one is
  /// the result (TrainingRun::chosen_step); 0: all steps are trained and the last one is the result.
  std::int64_t patience = 0;

  /// Learning rate of step `step` (the first is 1): warm-up, then cosine from the peak to final_rate of it, or the peak
  /// halved every `halve_every` steps.
  double rate_at(std::int64_t step) const;
};

/// A hyperparameter that can change during training.
struct SettingSpec {
  const char* key;
  const char* label;
  const char* meaning;
  std::variant<double TrainingConfig::*, std::int64_t TrainingConfig::*> member;
  double minimum, maximum;
  bool logarithmic = false;
  bool is_integer() const { return member.index() == 1; }
};
const std::vector<SettingSpec>& training_settings();
/// Null if no setting has this key.
const SettingSpec* find_setting(std::string_view key);
/// A field of a recipe as the controls of the window name it: "warm-up", "ridge ε, 1 ska" for "layers.1.ska.ridge"; one
/// without a control keeps its key.
std::string label_of_field(const std::string& field);
double get_setting(const TrainingConfig& config, std::string_view key);
/// Throws Error(bad_input) for an unknown key or a value outside the range, naming both.
void change_setting(TrainingConfig& config, std::string_view key, double value);

struct TimedCommand {
  std::int64_t step = 0;  ///< number of finished steps before the command acts
  Command command;
};

/// Whether a command of a recipe changes training: `set` changes a number, `skip` leaves a batch out, `surgery` fits
/// weights to a spectrum. All others change only what is analysed.
bool changes_training(const Command& command);

struct Recipe {
  std::string name;   ///< of the preset; used in file names, hence without slash or control characters
  std::string title;  ///< for the user
  std::string about;
  std::uint64_t seed = 7;
  nlohmann::json model, task;
  Precision precision = Precision::fp32;  ///< of matrix products, if the back end offers a choice
  TrainingConfig training;
  /// 8: each batch is split into 8 parts, so that 1, 2, 4 or 8 processes train with the same bits; 1: no split.
  int shards = 1;
  /// The number of first blocks whose backward pass recomputes everything but their outputs instead of storing it: less
  /// memory for more time. Not for forecasters.
  int recompute = 0;
  std::vector<TimedCommand> commands;  ///< in the order of their steps
  std::int64_t shown_step = -1;        ///< the step that a figure shows; -1: the end
  nlohmann::json inspected;            ///< inspected sequence and interventions (inspection_setup.h); null: defaults
  /// Source of the start weights: {"path", "hash", "library", "config"} of another library's folder
  /// (core/models/checkpoints/checkpoint.h); null: drawn from the seed.
  nlohmann::json checkpoint;
};

/// "fp32", "tf32" or "bf16". Throws Error(bad_input) for any other name.
Precision parse_precision(const std::string& name);

/// Throws Error(bad_input) that names `where` and the field for anything missing, unknown or impossible.
Recipe parse_recipe(const nlohmann::json& json, const std::string& where);
Recipe parse_recipe(const std::string& text, const std::string& where);
nlohmann::json to_json(const Recipe& recipe);
/// The last step with the same state in both runs: that of the first change which only one of them makes. -1 if they
/// differ from the start.
std::int64_t common_step(const Recipe& a, const Recipe& b);
/// "learning_rate=1e-3", "task.bindings=8", "model.d_model=64", "seed=3": one change of a recipe, as on the command
/// line. "layers.0.gka.r=5" changes a setting of a layer before the first step, as a slider of the window does.
void apply_assignment(nlohmann::json& recipe, const std::string& assignment);
/// The recipe with such changes. Throws Error(bad_input) that names `where` if the result is impossible.
Recipe changed_recipe(const Recipe& recipe, const std::vector<std::string>& assignments, const std::string& where);

/// The JSON text that a figure carries. Of a data file it holds the name and `hash`, by which a file of that name is
/// checked, but not the folder.
std::string carried_text(const Recipe& recipe);
/// The JSON of a recipe without its title and sentence, which change no number of a run; the title becomes the name, as
/// for a file without one.
nlohmann::json without_words(nlohmann::json recipe);
/// 16 hex digits of everything but the seed that shapes a training: recipe, changes of settings, batches left out.
std::string siblings_key(const Recipe& recipe);

/// Whether an assignment changes a setting of a layer, which can be done at any step.
bool is_layer_setting(const std::string& assignment);

struct PresetName {
  std::string name, title, about, task;  ///< the kind of its task
};
struct Preset : PresetName {
  std::string text, picture;  ///< JSON: the recipe, its picture in the list of presets (assets/presets/README.md)
};
/// The presets shipped with the program, in display order.
const std::vector<Preset>& presets();
/// Throws Error(usage) that lists the names.
const Preset& find_preset(const std::string& name);
/// Where the session of a machine can train, by names for the command `device`, and what it opens by name.
struct Machine {
  std::vector<std::pair<std::string, std::string>> devices;  ///< names and descriptions
  std::vector<PresetName> presets;
};
/// With the presets of this program.
inline std::shared_ptr<const Machine> machine_with(std::vector<std::pair<std::string, std::string>> devices) {
  return std::make_shared<const Machine>(Machine{std::move(devices), {presets().begin(), presets().end()}});
}
/// Whether its model, or a part of it, has one of these traits.
bool shows(const Preset& preset, LayerTraits any);
/// The first preset that does; nullptr without one.
const Preset* first_preset_that_shows(LayerTraits any);

}  // namespace afterglow
