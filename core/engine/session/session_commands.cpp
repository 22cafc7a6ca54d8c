// What each command of the engine does.
#include <algorithm>
#include <map>
#include <set>

#include "core/engine/session/session_worker.h"
#include "core/io/folders.h"
#include "core/io/json.h"
#include "core/io/json_file.h"
#include "core/io/named.h"
#include "core/io/safetensors.h"
#include "core/recipe/recipe.h"

namespace afterglow {
namespace {

/// Without changes made during training.
Recipe from_the_start(Recipe recipe) {
  recipe.commands.clear();
  recipe.shown_step = -1;
  return recipe;
}

}  // namespace

struct SessionWorker::Commands {
  using Handler = std::function<void(Commands&)>;

  /// Null if the engine has no command of this name.
  static Handler find(std::string_view name) {
    static const std::map<std::string_view, Handler> table = {
        {"run", &Commands::run},
        {"pause", [](Commands& of) { of.worker.control_.pause(); }},
        {"toggle_run", &Commands::toggle_run},
        {"step", &Commands::step},
        {"run_to", &Commands::run_to},
        {"rewind", &Commands::rewind},
        {"speed", &Commands::speed},
        {"discard", &Commands::discard},
        {"reset", [](Commands& of) { of.restart(static_cast<std::int64_t>(of.worker.run_->recipe().seed)); }},
        {"reseed",
         [](Commands& of) {
           const auto next = static_cast<std::int64_t>(of.worker.run_->recipe().seed) + 1;
           of.restart(std::clamp<std::int64_t>(of.integer("seed", next), 0, largest_seed));
         }},
        {"branch", &Commands::branch},
        {"set", &Commands::set},
        {"skip", &Commands::skip},
        {"freeze", &Commands::freeze},
        {"surgery", &Commands::surgery},
        {"undo", [](Commands& of) { of.tell_of_journal(of.worker.run_->undo()); }},
        {"redo", [](Commands& of) { of.tell_of_journal(of.worker.run_->redo()); }},
        {"load", &Commands::load},
        {"compare", &Commands::compare},
        {"gka_figure6",
         [](Commands& of) {
           of.compare_presets({"gka-constant", "gka-adaptive"});
         }},
        {"save", &Commands::save},
        {"device",
         [](Commands& of) {
           of.move_to(of.worker.options_.make_backend(of.text("name", "auto"), of.worker.options_.threads),
                      of.worker.run_->recipe().precision);
         }},
        {"precision", &Commands::precision},
        {"probe",
         [](Commands& of) {
           of.worker.run_->choose_inspected(of.value);
           of.worker.analyse_afresh();
         }},
        {"trace",
         [](Commands& of) {
           of.worker.run_->choose_trace(of.index("layer", -1));
           of.worker.analyse_afresh();
         }},
        {"influence", &Commands::ask_afresh},
        {"compare_runs", &Commands::ask_afresh},
        {"blame", &Commands::ask_of_training},
        {"measure", &Commands::ask},
        {"stop_when", [](Commands& of) { of.worker.run_->choose_stop(of.value); }},
        {"note",
         [](Commands& of) {
           of.worker.run_->write_note(of.value);
           of.worker.has_new_notes_ = true;
         }},
        {"theory", [](Commands& of) { of.worker.run_->choose_theory(of.index("layer", -1), of.index("head", 0)); }}};
    if (edits_inspection(name)) return &Commands::edit_inspection;
    const auto found = table.find(name);
    if (found != table.end()) return found->second;
    return find_settings(name) ? Handler(&Commands::ask) : nullptr;
  }

  SessionWorker& worker;
  const Command& command;
  const json& value = command.value;

  /// As large as JSON holds exactly.
  std::int64_t integer(const char* key, std::int64_t fallback) const {
    return get_integer(value, key, fallback, -largest_seed, largest_seed, command.name);
  }
  /// The index of a part or head, at least `low`; otherwise as `integer`.
  int index(const char* key, std::int64_t low) const {
    return static_cast<int>(std::clamp<std::int64_t>(integer(key, low), low, 1 << 20));
  }
  std::string text(const char* key, const std::string& fallback) const {
    return get_string(value, key, fallback, command.name);
  }

  void tell_of_journal(bool has_changed) {
    has_changed ? worker.analyse_afresh() : worker.report(Severity::info, "there is nothing to " + command.name);
  }

  /// At the end of a run it reports why nothing happens.
  void run() {
    const TrainingRun& run = *worker.run_;
    if (run.folder() || !run.finished()) return worker.start(-1);
    const bool is_at_last_step = run.step() >= run.trainer().config().steps;
    worker.report(Severity::info, is_at_last_step
                                      ? "Done · raise steps to continue"
                                      : "Done: no better result within the patience · raise patience to continue");
  }

  void toggle_run() {
    if (worker.run_->folder()) return worker.follow(!worker.follows_);
    if (worker.control_.running()) return worker.control_.pause();
    run();
  }

  void speed() {
    if (const std::int64_t by = integer("by", 0); by != 0)
      return worker.control_.change_speed(std::clamp<std::int64_t>(by, -10, 10));
    worker.control_.limit_speed(get_number(value, "to", std::nullopt, 0, INFINITY, command.name));
  }

  /// Of a run in a folder: shows the state `by` places after the present one.
  void move_by(std::int64_t by) { worker.go_to(worker.run_->folder()->near(worker.run_->step(), by).step); }

  void step() {
    const std::int64_t count = std::max<std::int64_t>(1, integer("count", 1));
    if (worker.run_->folder()) return move_by(count);
    worker.control_.train_more(count, worker.run_->step());
    worker.restart_clock();
  }

  void run_to() {
    const std::int64_t step = std::max<std::int64_t>(0, integer("step", worker.run_->step()));
    if (step > worker.run_->step()) return worker.go_to(step);
    worker.start(step);
  }

  /// By some steps from the present one, or from the target of a repetition in progress.
  void rewind() {
    const std::int64_t by = std::max<std::int64_t>(1, integer("by", 1));
    if (worker.run_->folder() && value.contains("by")) return move_by(-by);
    const std::int64_t aim = std::max(worker.control_.rebuilds_to(), worker.run_->step());
    worker.go_to(value.contains("by") ? aim - by : integer("step", 0));
  }

  /// Without a name the present run: the newest earlier run replaces it, or its own recipe at step 0.
  void discard() {
    const std::string present = worker.run_->name, name = text("run", "");
    RunArchive& archive = worker.archive_;
    if (name.empty() || name == present) {
      worker.go_over_to(archive.runs().empty() ? from_the_start(worker.run_->recipe()) : archive.runs().back().recipe);
      if (const std::optional<EarlierRun> former = archive.take_newest()) worker.run_->name = former->curves.run;
    } else if (!archive.discard(name)) {
      const auto names = names_of(archive.runs(), [](const EarlierRun& earlier) { return earlier.curves.run; });
      throw BadInput("there is no earlier run \"", name, "\"", which_there_are(name, names));
    }
    worker.report(Severity::info, (name.empty() ? present : name) + " was discarded");
  }

  /// The run's recipe at step 0 with this seed.
  void restart(std::int64_t seed) {
    Recipe recipe = from_the_start(worker.run_->recipe());
    recipe.seed = static_cast<std::uint64_t>(seed);
    const bool was_running = worker.control_.running();
    worker.open({recipe, std::nullopt});
    worker.control_.resume(was_running);
  }

  /// Keeps the present run as a grey curve; a copy goes on from here.
  void branch() {
    TrainingRun& run = *worker.run_;
    worker.archive_.branch({run.whole_curves(), run.recipe()}, run.step());
    run.forget_ahead();
    run.name = worker.archive_.name() + ", branched at " + std::to_string(run.step());
    worker.report(Severity::info, "branched at step " + std::to_string(run.step()));
  }

  /// Makes a change at the present step; keeps the former future as an earlier run.
  template <class Change>
  void begin_other_future(const Change& change) {
    const TrainingRun& run = *worker.run_;
    std::optional<EarlierRun> former;
    if (run.latest_step() > run.step()) former = EarlierRun{run.whole_curves(), run.recipe()};
    change(*worker.run_);
    if (former) worker.archive_.change(std::move(*former), run.step());
  }

  void set() {
    const SetNumber wanted = SetNumber::of(command);
    begin_other_future([&](TrainingRun& run) { run.set(wanted.key, wanted.to, wanted.is_live); });
    // Settings of the training do not change results for the present weights; settings of a layer do.
    if (wanted.key.find('.') == std::string::npos) return;
    worker.run_->forget_results();
    worker.analyse_afresh();
  }

  /// Rewinds to before a step and leaves its batch out of the training.
  void skip() {
    TrainingRun& run = *worker.run_;
    const std::int64_t step = integer("step", run.step() + 1);
    if (step <= run.oldest_step() || step > run.latest_step() + 1)
      throw BadInput("skip: step ", step, " cannot be left out; choose one of ", run.oldest_step() + 1, " to ",
                     run.latest_step() + 1);
    run.go_to(step - 1);
    begin_other_future([](TrainingRun& now) { now.leave_out_batch(); });
    worker.restart_clock();
    worker.analyse_afresh();
    worker.report(Severity::info, "the batch of step " + std::to_string(step) + " is left out");
  }

  void freeze() {
    const std::string part = text("part", "");
    if (part.empty()) throw BadInput(R"(freeze takes {"part": "1 ska"}, the label of a part)");
    const bool on = get_bool(value, "on", true, command.name);
    begin_other_future([&](TrainingRun& run) { run.freeze(part, on); });
    worker.report(Severity::info, part + (on ? " keeps its weights from here on" : " learns again"));
  }

  void surgery() {
    if (value.empty() && !worker.run_->inspection_moves_eigenvalues())
      return worker.report(Severity::info,
                           "drag eigenvalues in the Koopman spectrum first; then the weights can be fitted to them");
    begin_other_future([&](AnalysedRun& run) { run.operate(value); });
    worker.restart_clock();
    worker.analyse_afresh();
    worker.report(Severity::info,
                  "the key projections have the moved eigenvalues now; train on to see whether they spring back");
  }

  void load() {
    const std::string path = text("path", ""), preset = text("preset", "");
    if (!path.empty()) return worker.open(open_aside(path, [path] { return open_saved_run(path, newest_state); }));
    if (value.contains("recipe"))
      return worker.open_recipe(parse_recipe(value["recipe"], "recipe"), get_bool(value, "alone", false, command.name));
    if (preset.empty()) throw BadInput("load takes {\"preset\": \"tiny\"} or {\"path\": \"run.safetensors\"}");
    worker.open({parse_recipe(find_preset(preset).text, "preset"), std::nullopt});
    worker.control_.resume(worker.options_.start_running);
  }

  /// Trains these to their ends, one after the other; opening any other run cancels that.
  void train_compared(std::deque<ComparedRun> runs) {
    worker.control_.compare(std::move(runs));
    worker.train_next_compared();
  }

  void compare_presets(const std::vector<std::string>& names) {
    std::deque<ComparedRun> runs;
    for (const std::string& name : names) runs.push_back({find_preset(name).title, find_preset(name).text});
    train_compared(std::move(runs));
  }

  /// Presets, or the run's recipe with successive seeds.
  void compare() {
    constexpr std::int64_t max_seeds = 32;  // as many runs as are kept
    if (value.contains("seeds")) {
      const std::int64_t count = get_integer(value, "seeds", std::nullopt, 1, max_seeds, "compare");
      std::deque<ComparedRun> runs;
      Recipe recipe = from_the_start(worker.run_->recipe());
      for (std::int64_t i = 0; i < count; ++i, ++recipe.seed)
        runs.push_back({"seed " + std::to_string(recipe.seed), to_json(recipe).dump()});
      return train_compared(std::move(runs));
    }
    std::vector<std::string> names;
    if (value.contains("presets") && value["presets"].is_array()) {
      for (const json& name : value["presets"])
        names.push_back(find_preset(name.is_string() ? name.get<std::string>() : name.dump()).name);
    }
    if (names.empty())
      throw BadInput(
          R"(compare takes {"presets": ["tiny-ssm", "tiny"]}, `afterglow info` lists them, or {"seeds": 5})");
    compare_presets(names);
  }

  void save() {
    std::filesystem::path path = text("path", "");
    const Existing existing = path.empty() ? Existing::keep : Existing::replace_in_folder;
    if (path.empty()) {
      const std::filesystem::path& folder = worker.options_.save_folder;
      std::error_code ignored;  // the snapshot reports a folder that cannot be created
      if (!folder.empty()) std::filesystem::create_directories(folder, ignored);
      path = folder / (snapshot_stem(worker.run_->recipe(), worker.run_->step()) + ".safetensors");
    }
    try {
      const Snapshot snapshot = worker.present_snapshot();
      const std::filesystem::path written = write_safetensors(path, snapshot.file, existing);
      if (!value.contains("quiet")) worker.report(Severity::info, "snapshot written: " + written.string());
    } catch (const std::bad_alloc&) {
      throw Error(ExitCode::out_of_memory, path.string(), " was not written: not enough memory for its tensors");
    }
  }

  /// Continues the run on another back end; what was trained before stays as an earlier run.
  void move_to(std::unique_ptr<Backend> target, Precision precision) {
    const bool was_running = worker.control_.running();
    const double trained = worker.trained_;
    Snapshot snapshot = worker.present_snapshot();
    snapshot.recipe.precision = precision;
    std::unique_ptr<Backend> side;
    auto moved = worker.analyse({snapshot.recipe, snapshot, "", {}, {}, worker.run_->folder()}, *target, side);
    worker.archive_run();
    worker.take_over(std::move(moved));
    worker.side_backend_ = std::move(side);
    worker.backend_ = std::move(target);
    worker.device_is_lost_ = false;
    worker.trained_ = trained;
    worker.control_.resume(was_running);
  }

  void precision() {
    const Precision wanted = parse_precision(text("name", "fp32"));
    Backend& now = *worker.backend_;
    if (!now.set_precision(wanted)) throw BadInput(now.description(), " computes in fp32 only; switch to a GPU first");
    move_to(worker.options_.make_backend(now.name(), worker.options_.threads), wanted);
  }

  /// Commands that change what is inspected, and nothing of the run.
  void edit_inspection() {
    worker.run_->change_inspection(command);
    worker.scheduler_.note_edit();
  }

  /// Commands that set what an analysis measures, start it, or open a run that it has trained.
  void ask() {
    worker.scheduler_.retry();
    if (std::optional<Recipe> recipe = worker.run_->opened_by(command)) return worker.open({*recipe, {}});
    worker.run_->ask(command);
  }

  /// The same; a study of the steps of training needs some.
  void ask_of_training() {
    if (worker.run_->latest_step() <= worker.run_->oldest_step())
      return worker.report(Severity::info, "train some steps first; then the effect of every batch can be measured");
    ask();
  }

  /// The same for quick analyses, which follow at once.
  void ask_afresh() {
    worker.run_->ask(command);
    worker.analyse_afresh();
  }
};

bool SessionWorker::knows(std::string_view name) { return static_cast<bool>(Commands::find(name)); }

void SessionWorker::apply(const Command& command) {
  const Commands::Handler handler = Commands::find(command.name);
  if (!handler) throw BadInput("the engine has no command \"", command.name, "\"");
  if (!is_open() && command.name != "load") throw BadInput("nothing is open; load a preset first");
  static const std::set<std::string> learn{"branch", "reset", "reseed", "blame", "microscope", "bisect"};
  if (is_open() && run_->folder() && (changes_training(command) || learn.contains(command.name)))
    throw BadInput(command.name, ": another program trains this run; open one checkpoint by itself");
  Commands call{*this, command};
  handler(call);
}

}  // namespace afterglow
