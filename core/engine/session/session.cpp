// The worker: one loop that takes commands, trains, looks and publishes.
#include "core/engine/session/session.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <thread>

#include "core/engine/probing/solver_problems.h"
#include "core/engine/session/analysed_run.h"
#include "core/engine/session/analysis_scheduler.h"
#include "core/io/atomic_file.h"
#include "core/io/error.h"

namespace afterglow {

namespace {

using Clock = std::chrono::steady_clock;
using nlohmann::json;

constexpr std::size_t max_events = 50;                 // messages kept
constexpr std::size_t max_earlier_runs = 32;           // curves of former runs kept
constexpr std::int64_t first_checksum_interval = 100;  // steps between checksums that runs are compared by
constexpr std::size_t max_checksums = 4096;            // kept; beyond, the interval doubles and every other one goes
constexpr double share_for_analyses = 0.025;           // of the worker's time, at most, for all that are asked for
constexpr double share_for_awaited_influence = 0.5;    // until somebody has seen what was asked for last
constexpr double share_for_edits = 0.5;                // while somebody drags: the picture follows
constexpr double time_of_a_slice = 0.015;              // seconds of awaited pieces between two steps
constexpr double time_of_a_move = 0.1;                 // seconds: while a knob moves only what is quickly found follows
constexpr double time_of_steering = 0.5;               // seconds after a command in which the next one may come

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

}  // namespace

struct Session::Worker {
  Worker(std::string recipe, SessionOptions session_options)
      : options(std::move(session_options)), first_recipe(std::move(recipe)) {
    publish_slot(std::make_shared<Observation>());
    is_taken = true;
    thread = std::thread([this] { serve(); });
  }
  ~Worker() {
    {
      const std::lock_guard lock(mutex);
      stopping = true;
    }
    wake.notify_all();
    thread.join();
  }

  // Between the threads.
  std::mutex mutex;
  std::condition_variable wake;
  std::deque<Command> inbox;
  bool stopping = false;
  mutable std::mutex slot_mutex;
  std::shared_ptr<const Observation> slot;
  std::atomic<std::uint64_t> revision{0};
  std::atomic<std::int64_t> trained_steps{0};
  std::atomic<bool> is_taken{true};              // the observation in the slot
  std::atomic<AnalysisSet> asked{all_analyses};  // that are asked for
  AnalysisSet asked_before = all_analyses;

  // The worker's own.
  SessionOptions options;
  std::string first_recipe;
  std::unique_ptr<Backend> backend;
  std::unique_ptr<AnalysedRun> watched;
  std::vector<RunCurves> earlier_runs;
  std::optional<RunCurves> abandoned;  // what a rewind took back, until it is trained again as it was
  int run_number = 1;
  bool running = false, stopped_non_finite = false;
  std::int64_t pause_at = -1;                // -1: the recipe's last step
  std::deque<std::string> compared_presets;  // to be trained when the present run has ended
  std::deque<Event> events;
  std::map<std::string, std::pair<int, std::int64_t>> seen_checksums;  // checksum -> run number, step
  std::int64_t checksum_interval = first_checksum_interval;
  std::string checksum, same_as;
  std::int64_t checksum_step = -1;
  const Clock::time_point start_of_session = Clock::now();
  AnalysisScheduler paces;
  AnalysisThrottle edit_pace{0};
  bool probe_is_edited = false;  // since the last answer
  bool influence_failed = false;
  bool device_is_lost = false;  // nothing is asked of it until the run has moved
  Clock::time_point last_publication{}, last_command{}, speed_start = Clock::now();
  std::int64_t speed_step = 0;
  double steps_per_second = 0;
  bool stale = true;  // something changed since the last publication
  std::thread thread;

  void serve() {
    guarded([&] {
      backend = options.make_backend(options.device, options.threads);
      open({parse_recipe(first_recipe, "recipe"), std::nullopt});
      running = running || options.start_running;
    });
    while (take_commands()) {
      if (running && watched) guarded([&] { train(); });
      if (has_influence_to_measure() && !is_being_steered()) measure_influence();
      if (stale && is_taken && seconds_since(last_publication) >= 1.0 / options.publish_hz)
        guarded([&] { look_and_publish(); });
    }
  }

  // While training rests, the measurement gets all the time there is, a piece at a time.
  bool has_influence_to_measure() const {
    return watched && !running && !device_is_lost && !influence_failed && asks(Analysis::influence) &&
           !watched->influence_is_current();
  }

  // A command is answered at once: what takes longer waits until the hand has come to rest.
  bool is_being_steered() const { return !running && seconds_since(last_command) < time_of_steering; }
  void note_command() {
    last_command = Clock::now();
    if (!running) last_publication = {};
  }

  // A measurement that fails is told once and given up; it never stops the training.
  void measure_influence() {
    try {
      watched->advance_influence();
    } catch (const std::exception& error) {
      influence_failed = true;
      report(Severity::warning, std::string("the influence cannot be measured: ") + error.what());
    }
    if (watched->influence_is_current() || watched->influence_is_awaited()) stale = true;
  }

  // A single piece beside the training, or as many as a frame has time for while somebody waits for them.
  void measure_influence_for_a_while() {
    const Clock::time_point start = Clock::now();
    do {
      if (influence_failed) return;
      measure_influence();
    } while (watched->influence_is_awaited() && seconds_since(start) < time_of_a_slice);
  }

  // An error of the work becomes an event to show; the worker lives on.
  template <class Work>
  void guarded(const Work& work) {
    try {
      work();
    } catch (const Error& error) {
      running = false;
      const bool has_lost_gpu = error.code() == ExitCode::no_gpu && watched && backend && backend->name() != "cpu";
      device_is_lost = device_is_lost || has_lost_gpu;
      report(Severity::failure,
             error.what() + std::string(has_lost_gpu ? "; the command device cpu goes on here" : ""));
    } catch (const std::bad_alloc&) {
      running = false;
      report(Severity::failure, "not enough memory for this model; choose a smaller preset or batch");
    } catch (const std::exception& error) {
      running = false;
      report(Severity::failure, error.what());
    }
  }

  void report(Severity severity, const std::string& text) {
    events.push_back({watched ? run().step() : 0, severity, text});
    if (events.size() > max_events) events.pop_front();
    stale = true;
  }

  /// Applies what has arrived; waits when there is nothing to do. False: the session ends.
  bool take_commands() {
    std::deque<Command> commands;
    {
      std::unique_lock lock(mutex);
      const bool idle = !running || !watched;
      if (idle && !stale && !has_influence_to_measure())
        wake.wait(lock, [&] { return stopping || !inbox.empty() || asked != asked_before; });
      const AnalysisSet now_asked = asked;
      stale = stale || now_asked != asked_before;
      paces.begin(now_asked & ~asked_before, session_time());
      asked_before = now_asked;
      if (idle && inbox.empty() && (has_influence_to_measure() ? is_being_steered() : stale))
        wake.wait_for(lock, std::chrono::milliseconds(4));
      if (stopping) return false;
      commands.swap(inbox);
    }
    const bool was_running = running;
    for (const Command& command : commands) {
      guarded([&] { apply(command); });
      stale = true;
      note_command();
    }
    if (running && !was_running) paces.begin(all_analyses, session_time());
    return true;
  }

  void open(const SavedRun& moment) {
    compared_presets.clear();
    take_over(std::make_unique<AnalysedRun>(moment, *backend));  // on failure the present run stays
    running = false;
    pause_at = -1;
    if (!moment.snapshot && moment.recipe.shown_step > 0) {
      pause_at = moment.recipe.shown_step;
      running = true;
    }
  }

  void take_over(std::unique_ptr<AnalysedRun> fresh) {
    if (watched && !run().curves().loss.empty()) {
      keep_earlier(run().curves());
      ++run_number;
    }
    abandoned.reset();
    fresh->run().name = "run " + std::to_string(run_number);
    watched = std::move(fresh);
    influence_failed = false;
    stopped_non_finite = false;
    look_afresh();
    restart_clock();
  }

  TrainingRun& run() { return watched->run(); }

  void keep_earlier(RunCurves curves) {
    earlier_runs.push_back(std::move(curves));
    if (earlier_runs.size() > max_earlier_runs) earlier_runs.erase(earlier_runs.begin());
  }

  static std::int64_t last_step(const RunCurves& curves) {
    return curves.first_step - 1 + static_cast<std::int64_t>(curves.loss.size);
  }

  // Training again after a rewind gives the same curve, but not after a change: then the former one stays to compare.
  void keep_what_a_change_replaces() {
    if (abandoned && last_step(*abandoned) > run().step()) {
      abandoned->run = run().name + " before the change at " + std::to_string(run().step());
      keep_earlier(*abandoned);
    }
    abandoned.reset();
  }

  void look_afresh() {
    checksum_step = -1;
    paces.begin(all_analyses, session_time());
    stale = true;
  }

  void restart_clock() {
    speed_start = Clock::now();
    speed_step = watched ? run().step() : 0;
  }

  /// At the step to pause at, or else at the run's end, which a command of the recipe may move.
  bool has_arrived() { return pause_at >= 0 ? run().step() >= pause_at : run().finished(); }

  void train() {
    if (has_arrived()) {
      running = false;
      stale = true;
      if (run().finished()) train_next_compared();
      return;
    }
    ++trained_steps;
    if (!watched->train_step()) {
      running = false;
      stopped_non_finite = true;
      report(Severity::failure, run().failure());
    } else if (has_arrived()) {
      running = false;
      report_best_step();
    }
    if (run().step() % checksum_interval == 0) take_checksum();
    stale = true;
    if (run().finished() || stopped_non_finite) train_next_compared();
  }

  static std::deque<std::string> preset_names(const json& value) {
    std::deque<std::string> names;
    if (value.is_object() && value.contains("presets") && value["presets"].is_array()) {
      for (const json& name : value["presets"])
        names.push_back(find_preset(name.is_string() ? name.get<std::string>() : name.dump()).name);
    }
    if (names.empty())
      throw Error(ExitCode::bad_input,
                  R"(compare takes {"presets": ["tiny-ssm", "tiny"]}; `afterglow info` lists them)");
    return names;
  }

  /// Trains presets to their ends, one after the other; opening anything else ends it.
  void compare(std::deque<std::string> names) {
    compared_presets = std::move(names);
    train_next_compared();
  }

  void train_next_compared() {
    if (compared_presets.empty()) return;
    std::deque<std::string> rest = compared_presets;
    const Preset& preset = find_preset(rest.front());
    rest.pop_front();
    open({parse_recipe(preset.text, "preset"), std::nullopt});
    run().name = preset.title;
    compared_presets = std::move(rest);
    start(-1);
  }

  /// A run with patience counts by its best evaluation; the moment stays where training ended, and rewinding is exact.
  void report_best_step() {
    if (run().chosen_step() == run().step()) return;
    report(Severity::info, "the held-out result was best at step " + std::to_string(run().chosen_step()) +
                               "; rewind there to use that model");
  }

  void start(std::int64_t until) {
    pause_at = until;
    running = true;
    stopped_non_finite = false;
    restart_clock();
  }

  /// What is asked for faster than it is trained adds up.
  void train_more(std::int64_t count) { start((running && pause_at >= 0 ? pause_at : run().step()) + count); }

  /// A whole number of a command's value; what is not there, or no number, is the fallback.
  static std::int64_t integer_in(const json& value, const char* key, std::int64_t fallback) {
    if (!value.is_object() || !value.contains(key) || !value[key].is_number()) return fallback;
    constexpr double most = 9e15;
    return static_cast<std::int64_t>(std::clamp(value[key].get<double>(), -most, most));
  }

  /// Commands that change what the probe asks, and nothing of the run.
  inline static const std::set<std::string_view> probe_commands = {"probe_sequence", "override",  "head_off",
                                                                   "mode_off",       "drag_mode", "clear_overrides"};
  using Handler = void (*)(Worker& worker, const json& value);
  static const std::map<std::string_view, Handler>& handlers() {
    static const std::map<std::string_view, Handler> table = {
        {"run", [](Worker& w, const json&) { w.start(-1); }},
        {"pause", [](Worker& w, const json&) { w.running = false; }},
        {"toggle_run", [](Worker& w, const json&) { w.running ? void(w.running = false) : w.start(-1); }},
        {"step", [](Worker& w, const json& v) { w.train_more(std::max<std::int64_t>(1, integer_in(v, "count", 1))); }},
        {"run_to",
         [](Worker& w, const json& v) { w.start(std::max<std::int64_t>(0, integer_in(v, "step", w.run().step()))); }},
        {"rewind",
         [](Worker& w, const json& v) {
           w.go_to(v.contains("by") ? w.run().step() - std::max<std::int64_t>(1, integer_in(v, "by", 1))
                                    : integer_in(v, "step", 0));
         }},
        {"reset", [](Worker& w, const json&) { w.restart(w.run().recipe().seed); }},
        {"reseed", [](Worker& w, const json& v) { w.reseed(v); }},
        {"branch", [](Worker& w, const json&) { w.branch(); }},
        {"set", [](Worker& w, const json& v) { w.change(v); }},
        {"undo", [](Worker& w, const json&) { w.changed_back(w.watched->undo(), "there is nothing to undo"); }},
        {"redo", [](Worker& w, const json&) { w.changed_back(w.watched->redo(), "there is nothing to do again"); }},
        {"load", [](Worker& w, const json& v) { w.load(v); }},
        {"compare", [](Worker& w, const json& v) { w.compare(preset_names(v)); }},
        {"gka_figure6",
         [](Worker& w, const json&) {
           w.compare({"gka-constant", "gka-adaptive"});
         }},
        {"save", [](Worker& w, const json& v) { w.save(v); }},
        {"device", [](Worker& w, const json& v) { w.change_device(name_in(v, "auto")); }},
        {"precision", [](Worker& w, const json& v) { w.change_precision(parse_precision(name_in(v, "fp32"))); }},
        {"probe",
         [](Worker& w, const json& v) {
           w.watched->choose_probe(static_cast<std::uint64_t>(std::max<std::int64_t>(0, integer_in(v, "index", 0))));
           w.look_afresh();
         }},
        {"influence",
         [](Worker& w, const json& v) {
           w.influence_failed = false;
           w.watched->choose_influence(v.is_object() ? v : json::object());
           w.look_afresh();
         }},
        {"compare_runs",
         [](Worker& w, const json& v) {
           w.watched->compare_runs(v);
           w.look_afresh();
         }},
        {"solver_problem", [](Worker& w, const json& v) { w.watched->choose_problem(parse_made_problem(v)); }},
        {"theory",
         [](Worker& w, const json& v) {
           constexpr std::int64_t most = 1 << 20;
           w.watched->choose_theory(static_cast<int>(std::clamp<std::int64_t>(integer_in(v, "layer", -1), -1, most)),
                                    static_cast<int>(std::clamp<std::int64_t>(integer_in(v, "head", 0), 0, most)));
         }},
        {"trace", [](Worker& w, const json& v) {
           w.watched->choose_trace(static_cast<int>(std::clamp<std::int64_t>(integer_in(v, "layer", -1), -1, 1 << 20)));
           w.look_afresh();
         }}};
    return table;
  }

  void apply(const Command& command) {
    if (watched && probe_commands.contains(command.name)) {
      watched->change_probe(command);
      probe_is_edited = true;
      return;
    }
    const auto handler = handlers().find(command.name);
    if (handler == handlers().end())
      throw Error(ExitCode::bad_input, "the engine has no command \"" + command.name + "\"");
    if (!watched && command.name != "load") throw Error(ExitCode::bad_input, "nothing is open; load a preset first");
    handler->second(*this, json::parse(command.value, nullptr, false));
  }

  void reseed(const json& value) {
    const auto next = static_cast<std::int64_t>(run().recipe().seed) + 1;
    restart(static_cast<std::uint64_t>(std::max<std::int64_t>(0, integer_in(value, "seed", next))));
  }

  void changed_back(bool changed, const char* otherwise) {
    if (!changed) return report(Severity::info, otherwise);
    look_afresh();
  }

  void change_device(const std::string& name) {
    move_to(options.make_backend(name, options.threads), run().recipe().precision);
  }

  void change(const json& value) {
    if (!value.is_object() || !value.contains("key") || !value["key"].is_string() || !value.contains("to") ||
        !value["to"].is_number()) {
      throw Error(ExitCode::bad_input, "set takes {\"key\": \"learning_rate\", \"to\": 0.001}");
    }
    const auto key = value["key"].get<std::string>();
    run().set(key, value["to"].get<double>(), value.contains("live") && value["live"] == true);
    keep_what_a_change_replaces();
    // How the training goes on changes nothing of what the present weights show.
    if (key.find('.') == std::string::npos) return;
    watched->forget_looks();
    look_afresh();
  }

  // Backwards at once; forwards as training, so that a pause can come between.
  void go_to(std::int64_t step) {
    if (step > run().step()) return start(step);
    running = false;
    if (!abandoned || last_step(*abandoned) < run().step()) abandoned = run().curves();
    watched->go_to(std::max<std::int64_t>(0, step));
    stopped_non_finite = !run().failure().empty();
    restart_clock();
  }

  void restart(std::uint64_t seed) {
    Recipe recipe = run().recipe();
    recipe.seed = seed;
    recipe.commands.clear();
    recipe.shown_step = -1;
    const bool was_running = running;
    open({recipe, std::nullopt});
    running = was_running;
  }

  // The present run stays as it is, in grey; a copy goes on from here.
  void branch() {
    keep_earlier(run().curves());
    abandoned.reset();
    ++run_number;
    run().name = "run " + std::to_string(run_number) + ", branched at " + std::to_string(run().step());
    report(Severity::info, "branched at step " + std::to_string(run().step()));
  }

  void load(const json& value) {
    if (!backend) throw Error(ExitCode::no_gpu, "there is no back end to run on; start with --device cpu");
    if (value.is_object() && value.contains("path") && value["path"].is_string()) {
      open(open_saved_run(value["path"].get<std::string>()));
    } else if (value.is_object() && value.contains("preset") && value["preset"].is_string()) {
      open({parse_recipe(find_preset(value["preset"].get<std::string>()).text, "preset"), std::nullopt});
      running = options.start_running;
    } else {
      throw Error(ExitCode::bad_input, "load takes {\"preset\": \"tiny\"} or {\"path\": \"run.safetensors\"}");
    }
  }

  static std::string name_in(const json& value, const std::string& fallback) {
    return value.is_object() && value.contains("name") && value["name"].is_string() ? value["name"].get<std::string>()
                                                                                    : fallback;
  }

  // The present moment goes on elsewhere; what came before stays as an earlier run.
  /// The run as it is; where the device no longer answers, as it was kept last.
  Snapshot present_snapshot() {
    try {
      return run().snapshot();
    } catch (const Error& error) {
      std::optional<Snapshot> kept = error.code() == ExitCode::no_gpu ? run().kept_snapshot() : std::nullopt;
      if (!kept) throw;
      report(Severity::warning, "the device no longer answers; going on from step " + std::to_string(kept->step));
      return *kept;
    }
  }
  void move_to(std::unique_ptr<Backend> target, Precision precision) {
    const bool was_running = running;
    Snapshot snapshot = present_snapshot();
    snapshot.recipe.precision = precision;
    take_over(std::make_unique<AnalysedRun>(SavedRun{snapshot.recipe, snapshot}, *target));
    backend = std::move(target);
    device_is_lost = false;
    running = was_running;
  }

  void change_precision(Precision precision) {
    if (!backend->set_precision(precision)) {
      throw Error(ExitCode::bad_input, backend->description() + " computes in fp32 only; switch to a GPU first");
    }
    move_to(options.make_backend(backend->name(), options.threads), precision);
  }

  void save(const json& value) {
    const std::string path = value.is_object() && value.contains("path") && value["path"].is_string()
                                 ? value["path"].get<std::string>()
                                 : free_path(run().recipe().name + "_seed" + std::to_string(run().recipe().seed) +
                                             "_step" + std::to_string(run().step()) + ".safetensors")
                                       .string();
    write_snapshot(path, run().snapshot());
    report(Severity::info, "snapshot written: " + path);
  }

  void take_checksum() {
    if (checksum_step == run().step() && !checksum.empty()) return;
    checksum = run().trainer().checksum();
    checksum_step = run().step();
    const auto [entry, fresh] = seen_checksums.try_emplace(checksum, run_number, checksum_step);
    same_as = !fresh && entry->second.first != run_number ? "run " + std::to_string(entry->second.first) : "";
    if (seen_checksums.size() <= max_checksums) return;
    checksum_interval *= 2;
    std::erase_if(seen_checksums, [&](const auto& seen) { return seen.second.second % checksum_interval != 0; });
  }

  /// What is to be made; an edited probe is asked for, whichever page shows.
  AnalysisSet wanted() const { return watched->probe_has_interventions() ? asked | Analysis::probe : asked.load(); }
  bool asks(Analysis analysis) const { return has(wanted(), analysis); }
  /// Of the worker's time.
  double share_of(Analysis analysis) const {
    if (analysis == Analysis::influence && watched->influence_is_awaited()) return share_for_awaited_influence;
    return share_for_analyses * AnalysisScheduler::part_of(analysis, wanted());
  }

  /// The clock of the paces.
  double session_time() const { return seconds_since(start_of_session); }
  bool is_due(const AnalysisThrottle& pace, double share) const { return pace.due(share, session_time()); }
  template <class Look>
  void look_in(AnalysisThrottle& pace, const Look& look) {
    const double from = session_time();
    look();
    pace.looked(from, session_time());
  }

  // At rest the step shows at once; what takes longer follows with the next publication.
  void look() {
    if (device_is_lost) return;
    const bool resting = !running;
    bool looked = false;
    const auto look_at = [&](Analysis analysis, bool is_current, void (AnalysedRun::*update)()) {
      if (is_current || !asks(analysis) || !(resting || is_due(paces.of(analysis), share_of(analysis)))) return;
      look_in(paces.of(analysis), [&] { (*watched.*update)(); });
      looked = true;
    };
    look_at(Analysis::spectra, watched->spectra_are_current(), &AnalysedRun::update_spectra);
    look_at(Analysis::trace, watched->trace_is_current(), &AnalysedRun::update_trace);
    if (resting) take_checksum();
    if (resting && !looked && seconds_since(last_command) < time_of_a_move) {
      look_at(Analysis::probe, watched->probe_is_answered(), &AnalysedRun::answer_probe);
    } else if (!(resting && looked)) {
      looked = look_at_probe() || looked;
    }
    if (is_being_steered()) {
      stale = true;
      return;
    }
    if (!(resting && looked)) look_at(Analysis::solvers, watched->solvers_are_current(), &AnalysedRun::update_solvers);
    if (!(resting && looked)) look_at(Analysis::theory, watched->theory_is_current(), &AnalysedRun::update_theory);
    AnalysisThrottle& influence = paces.of(Analysis::influence);
    if (!resting && asks(Analysis::influence) && is_due(influence, share_of(Analysis::influence)))
      look_in(influence, [&] { measure_influence_for_a_while(); });
    stale = stale || (resting && looked);
  }

  /// While somebody edits the probe the answers follow. Whether there is a new one.
  bool look_at_probe() {
    if (watched->probe_is_current() || !asks(Analysis::probe)) return false;
    AnalysisThrottle& pace = probe_is_edited ? edit_pace : paces.of(Analysis::probe);
    if (running && !is_due(pace, probe_is_edited ? share_for_edits : share_of(Analysis::probe))) return false;
    look_in(pace, [&] { watched->update_probe(); });
    probe_is_edited = false;
    return true;
  }

  void measure_speed() {
    const double elapsed = seconds_since(speed_start);
    if (elapsed < 0.5) return;
    steps_per_second = static_cast<double>(run().step() - speed_step) / elapsed;
    speed_start = Clock::now();
    speed_step = run().step();
  }

  void look_and_publish() {
    last_publication = Clock::now();
    stale = false;
    auto now = std::make_shared<Observation>();
    if (watched) {
      look();
      if (running) measure_speed();
      *now = watched->describe();
      now->running = running;
      now->stopped_non_finite = stopped_non_finite;
      now->checksum = checksum;
      now->checksum_step = std::max<std::int64_t>(0, checksum_step);
      now->same_as = same_as;
      now->steps_per_second = steps_per_second;
      now->runs.insert(now->runs.begin(), earlier_runs.begin(), earlier_runs.end());
    }
    now->events.assign(events.begin(), events.end());
    publish_slot(std::move(now));
  }

  void publish_slot(std::shared_ptr<const Observation> fresh) {
    {
      const std::lock_guard lock(slot_mutex);
      slot.swap(fresh);
      is_taken = false;
    }
    ++revision;
  }
};

Session::Session(const std::string& recipe, const SessionOptions& options)
    : worker_(std::make_unique<Worker>(recipe, options)) {}
Session::~Session() = default;

void Session::send(Command command) {
  {
    const std::lock_guard lock(worker_->mutex);
    worker_->inbox.push_back(std::move(command));
  }
  worker_->wake.notify_all();
}

std::shared_ptr<const Observation> Session::observe() const {
  const std::lock_guard lock(worker_->slot_mutex);
  worker_->is_taken = true;
  return worker_->slot;
}

std::uint64_t Session::revision() const { return worker_->revision; }
std::int64_t Session::trained_steps() const { return worker_->trained_steps; }

void Session::ask(AnalysisSet analyses) {
  if (worker_->asked.exchange(analyses) == analyses) return;
  { const std::lock_guard lock(worker_->mutex); }
  worker_->wake.notify_all();
}

}  // namespace afterglow
