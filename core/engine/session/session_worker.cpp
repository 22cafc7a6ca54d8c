// One turn of the worker, and what its commands do.
#include "core/engine/session/session_worker.h"

#include <algorithm>
#include <new>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "core/engine/recipe/recipe_text.h"
#include "core/engine/session/arriving_model.h"
#include "core/engine/session/command_handlers.h"
#include "core/io/json_file.h"
#include "core/io/safetensors_writer.h"
#include "core/io/wording.h"
#include "core/models/checkpoints/checkpoint.h"

namespace afterglow {

namespace {
constexpr std::size_t max_events = 50;  // messages
constexpr double immediate = 0.25;      // that going to a step may take without showing progress
constexpr double window_timeout_seconds =
    1;  // without an observation taken; the slowest window draws three times a second

/// Without changes made during training.
Recipe from_the_start(Recipe recipe) {
  recipe.commands.clear();
  recipe.shown_step = -1;
  return recipe;
}

}  // namespace

SessionWorker::SessionWorker(std::string recipe, SessionOptions options, Mailbox& mailbox)
    : options_(std::move(options)),
      first_recipe_(std::move(recipe)),
      mailbox_(&mailbox),
      scheduler_([this] { return seconds(); }, [this](const std::string& text) { report(Severity::warning, text); },
                 [this] { return mailbox_->has_mail(); }) {}

double SessionWorker::seconds() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
}

void SessionWorker::begin() {
  guarded([&] {
    backend_ = options_.make_backend(options_.device, options_.threads);
    if (options_.opened) return open(std::exchange(*options_.opened, {}));
    open({parse_recipe(first_recipe_, "recipe"), std::nullopt});
    control_.resume(control_.running() || options_.start_running);
  });
}

bool SessionWorker::turn() {
  take_commands();
  if (is_over_) return false;
  // The first step and analyses of a large model take long; publish its summary before them.
  const bool is_new = announced_ != opened_;
  if (is_new) {
    guarded([&] {
      if (analysed_) analysed_->limit_work();
      mailbox_->publish(observation(), taken_);
      if (!analysed_ || !run().trainer().is_large()) return;
      analysed_->estimate_work();  // reported before the first analysis
      mailbox_->publish(observation(), taken_);
    });
  }
  announced_ = opened_;
  guarded([&] { watch_folder(); });
  if (control_.running() && analysed_ && control_.is_due(seconds())) guarded([&] { train(); });
  if (mailbox_->is_taken()) last_taken_ = seconds();
  if (control_.running() && analysed_ && !device_is_lost_ && seconds() - last_taken_ < window_timeout_seconds)
    scheduler_.advance_urgent(*analysed_);
  // At rest a piecewise analysis gets all the time, one piece per turn.
  if (has_pieces() && !scheduler_.is_steered(control_.running()))
    is_stale_ = scheduler_.advance_pieces(*analysed_) || is_stale_;
  if (is_stale_ && (mailbox_->is_taken() || (is_new && !control_.running())) && is_due_to_publish())
    guarded([&] { analyse_and_publish(); });
  return true;
}

void SessionWorker::end() {
  constexpr double worth_keeping = 5;  // seconds of training; a finished run is always kept
  if (!options_.at_end || !analysed_ || trained_ == 0 || (trained_ < worth_keeping && !is_over())) return;
  options_.at_end([&] {
    std::optional<Snapshot> kept = run().failure().empty() ? std::nullopt : run().kept_snapshot();
    return kept ? std::move(*kept) : present_snapshot();
  });
}

bool SessionWorker::has_pieces() const {
  return analysed_ && !device_is_lost_ && scheduler_.has_pieces(*analysed_, control_.running());
}

Mailbox::Wait SessionWorker::wait() const {
  if (control_.running() && analysed_ && control_.is_due(seconds())) return Mailbox::Wait::none;
  if (has_pieces()) return scheduler_.is_steered(control_.running()) ? Mailbox::Wait::a_while : Mailbox::Wait::none;
  const bool waits_for_its_step = control_.running() && analysed_;
  if (is_stale_ || waits_for_its_step) return Mailbox::Wait::a_while;
  return analysed_ && analysed_->run().folder() ? Mailbox::Wait::half_a_second : Mailbox::Wait::until_something_comes;
}

void SessionWorker::take_commands() {
  const Mailbox::Delivery delivery = mailbox_->receive(wait());
  is_over_ = delivery.is_over;
  if (is_over_) return;
  if (analysed_) analysed_->make_urgent(delivery.requested & ~scheduler_.requested());
  if (scheduler_.request(delivery.requested)) {
    is_stale_ = true;
    if (analysed_ && run().trainer().is_large()) analysed_->release(~delivery.requested);
  }
  const bool was_running = control_.running();
  for (const Command& command : delivery.commands) {
    ++taken_;
    if (analysed_) run().journal().now = taken_;
    guarded([&] { apply(command); });
    is_stale_ = true;
    scheduler_.note_command();
    if (!control_.running()) last_publication_ = -1e9;
  }
  if (control_.running() && !was_running) scheduler_.begin(all_analyses);
}

// Reports an error as an event; the worker goes on.
void SessionWorker::guarded(const std::function<void()>& work) {
  const auto fail = [this](ExitCode code, const std::string& text) {
    control_.pause();
    last_failure_ = code;
    report(Severity::failure, text);
  };
  try {
    work();
  } catch (const Error& error) {
    const bool has_lost_gpu = error.code() == ExitCode::no_gpu && analysed_ && backend_ && backend_->name() != "cpu";
    device_is_lost_ = device_is_lost_ || has_lost_gpu;
    fail(error.code(),
         error.what() + std::string(has_lost_gpu ? "; the command device cpu continues here on the processor" : ""));
  } catch (const std::bad_alloc&) {
    fail(ExitCode::out_of_memory, "not enough memory for this model; choose a smaller preset or batch");
  } catch (const std::exception& error) {
    fail(ExitCode::failure, error.what());
  }
}

void SessionWorker::report(Severity severity, const std::string& text) {
  events_.push_back({analysed_ ? run().step() : 0, severity, text});
  if (events_.size() > max_events) events_.pop_front();
  is_stale_ = true;
}

void SessionWorker::apply(const Command& command) {
  const CommandHandler handler = find_handler(command.name);
  if (handler == nullptr) throw Error(ExitCode::bad_input, "the engine has no command \"" + command.name + "\"");
  if (!is_open() && command.name != "load") throw Error(ExitCode::bad_input, "nothing is open; load a preset first");
  static const std::set<std::string> learn{"branch", "reset", "reseed", "blame", "microscope", "bisect"};
  if (is_open() && run().folder() && (changes_training(command) || learn.contains(command.name)))
    throw Error(ExitCode::bad_input, command.name + ": another program trains this run; open one checkpoint by itself");
  const bool is_text = std::holds_alternative<std::monostate>(command.typed);
  const nlohmann::json value = is_text ? parse_json(command.value, "the value of " + command.name) : nlohmann::json();
  if (!value.is_object() && !value.is_null())
    throw Error(ExitCode::bad_input, command.name + " takes an object, not " + command.value);
  handler(*this, command, value.is_null() ? nlohmann::json::object() : value);
}

void SessionWorker::open(const SavedRun& saved) {
  if (!backend_) throw Error(ExitCode::no_gpu, "there is no back end to run on; start with --device cpu");
  control_.compare({});
  auto fresh = load(saved);
  archive_run();
  take_over(std::move(fresh));
  view_ = saved.view;
  for (const std::string& note : saved.notes) report(Severity::info, note);
  const bool is_rebuilt = !saved.snapshot && saved.recipe.shown_step > 0;
  control_.open(is_rebuilt ? std::optional(saved.recipe.shown_step) : std::nullopt);
}

/// While another library's weights are read, the window shows the model part by part.
std::unique_ptr<AnalysedRun> SessionWorker::load(const SavedRun& saved) {
  if (saved.snapshot || saved.recipe.checkpoint.is_null()) return analyse(saved, *backend_, side_backend_);
  ArrivingModel arriving(saved.recipe);
  const LoadingWatch watch([&](const Parameter& parameter) {
    if (!arriving.note(parameter)) return;
    auto now = std::make_shared<Observation>();
    now->model = arriving.summary();
    now->title = saved.recipe.title;
    now->device = backend_->description();
    now->events.assign(events_.begin(), events_.end());
    now->opened = opened_;
    mailbox_->publish(now, taken_);
  });
  return analyse(saved, *backend_, side_backend_);
}

/// If the device has no room for a second back end, analyses run between steps, as for small models.
std::unique_ptr<AnalysedRun> SessionWorker::analyse(const SavedRun& saved, Backend& backend,
                                                    std::unique_ptr<Backend>& side) {
  auto analysed = std::make_unique<AnalysedRun>(saved, backend);
  const Trainer& trainer = analysed->run().trainer();
  if (trainer.forecast() || trainer.parameters().count() < options_.side_stream_from) return analysed;
  try {
    if (!side) side = backend.low_priority_backend();
    if (side)
      analysed->analyse_on_side_stream(*side, {[this] { train_while_waiting(); }, [this] { end_overlapped_step(); }});
  } catch (const Error& error) {
    if (error.code() != ExitCode::out_of_memory) throw;
  }
  return analysed;
}

/// Keeps the present run as an earlier one.
void SessionWorker::archive_run() {
  if (analysed_) archive_.replace({run().whole_curves(), run().recipe()});
}

void SessionWorker::take_over(std::unique_ptr<AnalysedRun> fresh) {
  fresh->run().name = archive_.name();
  if (analysed_) fresh->take_over(*analysed_);
  view_.clear();
  ++opened_;
  analysed_ = std::move(fresh);
  follows_ = run().folder() && run().step() == run().latest_step();
  next_update_ = seconds() + 1;  // the folder has just been searched
  trained_ = 0;
  control_.rest(false);
  analyse_afresh();
  control_.restart_clock(run().step(), seconds());
}

void SessionWorker::analyse_afresh() {
  checksum_step_ = -1;
  scheduler_.retry();
  scheduler_.begin(all_analyses);
  is_stale_ = true;
}

void SessionWorker::watch_folder() {
  if (!analysed_ || !run().folder() || seconds() < next_update_) return;
  const double began = seconds();
  next_update_ = began + 60;  // after a failure
  const bool has_news = run().folder()->update();
  next_update_ = seconds() + std::max(1.0, 50 * (seconds() - began));  // rarely where an update takes long
  is_stale_ = is_stale_ || has_news;
  if (has_news && follows_ && !run().folder()->states().empty()) go_to(newest_state);
}

void SessionWorker::move_by(std::int64_t by) { go_to(run().folder()->near(run().step(), by).step); }

void SessionWorker::follow(bool on) {
  if (on) go_to(newest_state);
  follows_ = on;
}

void SessionWorker::train() {
  is_stale_ = true;
  if (is_over()) {
    control_.pause();
    if (run().finished()) train_next_compared();
    return;
  }
  begin_step();
  end_step();
}

bool SessionWorker::is_over() const { return control_.is_over(analysed_->run().step(), analysed_->run().finished()); }

void SessionWorker::begin_step() {
  mailbox_->count_step();
  step_began_ = seconds();
  control_.begin_step(seconds());
}

void SessionWorker::end_step() {
  is_stale_ = true;
  const bool is_finite = analysed_->train_step();
  trained_ += seconds() - step_began_;
  if (!is_finite) {
    control_.rest(true);
    report(Severity::failure, run().failure());
  } else if (is_over()) {
    control_.pause();
    report_best_step();
  } else if (control_.rebuilds_to() < 0) {
    stop_if_requested();
  }
  if (archive_.wants_checksum(run().step(), run().trainer().parameters().values().elements())) take_checksum();
  if (run().finished() || control_.stopped_non_finite()) train_next_compared();
}

/// Runs while an analysis waits for its device: ends the step in flight once it is done, publishes, and begins the
/// next. Does not begin another run, because the analysis still reads this one.
void SessionWorker::train_while_waiting() {
  if (run().is_under_way()) {
    if (!run().is_step_done()) return;
    end_overlapped_step();
    if (mailbox_->is_taken() && is_due_to_publish()) {
      last_publication_ = seconds();
      publish();
    }
  }
  if (!control_.running() || !control_.compared().empty() || !control_.is_due(seconds()) || is_over()) return;
  guarded([&] {
    if (analysed_->begin_step()) begin_step();
  });
}

void SessionWorker::end_overlapped_step() {
  if (run().is_under_way()) guarded([&] { end_step(); });
}

void SessionWorker::stop_if_requested() {
  const std::optional<std::string> reason = analysed_->stop_reason();
  if (!reason) return;
  control_.pause();
  report(Severity::info, "training stopped at step " + std::to_string(run().step()) + ": " + *reason);
}

void SessionWorker::compare(const std::vector<std::string>& presets) {
  std::deque<ComparedRun> runs;
  for (const std::string& name : presets) {
    const Preset& preset = find_preset(name);
    runs.push_back({preset.title, preset.text});
  }
  control_.compare(std::move(runs));
  train_next_compared();
}

void SessionWorker::compare_seeds(std::int64_t count) {
  std::deque<ComparedRun> runs;
  Recipe recipe = from_the_start(run().recipe());
  for (std::int64_t i = 0; i < count; ++i, ++recipe.seed)
    runs.push_back({"seed " + std::to_string(recipe.seed), to_json(recipe).dump()});
  control_.compare(std::move(runs));
  train_next_compared();
}

void SessionWorker::train_next_compared() {
  const std::optional<ComparedRun> next = control_.next_compared();
  if (!next) return;
  std::deque<ComparedRun> rest = control_.compared();
  open({parse_recipe(next->recipe, next->name), std::nullopt});
  run().name = next->name;
  control_.compare(std::move(rest));
  start(-1);
}

/// A run with patience is judged by its best evaluation; training rests at its end, and the user can rewind exactly.
void SessionWorker::report_best_step() {
  if (run().chosen_step() == run().step()) return;
  report(Severity::info, "the held-out result was best at step " + std::to_string(run().chosen_step()) +
                             "; rewind there to use that model");
}

void SessionWorker::start(std::int64_t until) {
  if (run().folder()) return follow(true);
  control_.start(until);
  control_.restart_clock(run().step(), seconds());
}

void SessionWorker::train_more(std::int64_t count) {
  if (run().folder()) return move_by(count);
  control_.train_more(count, run().step());
  control_.restart_clock(run().step(), seconds());
}

std::int64_t SessionWorker::aim() const { return std::max(control_.rebuilds_to(), analysed_->run().step()); }

void SessionWorker::go_to(std::int64_t step) {
  if (run().folder()) {
    analysed_->go_to(step);
    follows_ = run().step() == run().latest_step();  // as a log viewer does
    return;
  }
  if (step > run().latest_step()) return start(step);
  control_.pause();
  const std::int64_t target = std::max(run().oldest_step(), step);
  if (step < target && target > 0)
    report(Severity::info,
           "This snapshot starts at step " + std::to_string(target) + "; rerun the recipe to go further back.");
  const double end = seconds() + immediate;
  analysed_->jump_towards(target);
  while (run().step() < target && seconds() < end && analysed_->train_step()) {
  }
  control_.rest(!run().failure().empty());
  if (run().step() < target && run().failure().empty()) control_.rebuild(target);
  control_.restart_clock(run().step(), seconds());
}

void SessionWorker::restart(std::uint64_t seed) {
  Recipe recipe = from_the_start(run().recipe());
  recipe.seed = seed;
  const bool was_running = control_.running();
  open({recipe, std::nullopt});
  control_.resume(was_running);
}

void SessionWorker::branch() {
  archive_.branch({run().whole_curves(), run().recipe()}, run().step());
  analysed_->forget_ahead();
  run().name = archive_.name() + ", branched at " + std::to_string(run().step());
  report(Severity::info, "branched at step " + std::to_string(run().step()));
}

void SessionWorker::discard(const std::string& name) {
  if (name.empty() || name == run().name) return discard_present();
  if (archive_.discard(name)) return report(Severity::info, name + " was discarded");
  std::vector<std::string> names;
  for (const EarlierRun& earlier : archive_.runs()) names.push_back(earlier.curves.run);
  throw Error(ExitCode::bad_input, "there is no earlier run \"" + name + "\"" + which_there_are(name, names));
}

void SessionWorker::discard_present() {
  const std::string thrown = run().name;
  go_over_to(archive_.runs().empty() ? from_the_start(run().recipe()) : archive_.runs().back().recipe);
  if (const std::optional<EarlierRun> former = archive_.take_newest()) run().name = former->curves.run;
  report(Severity::info, thrown + " was discarded");
}

/// Replaces the present run.
void SessionWorker::go_over_to(const Recipe& recipe) {
  const std::int64_t common = common_step(run().recipe(), recipe);
  if (recipe.shown_step > 0 && common > 0 && run().oldest_step() == 0) {
    analysed_->go_over_to(recipe, common);
    control_.rest(false);
    control_.restart_clock(run().step(), seconds());
    analyse_afresh();
  } else {
    take_over(analyse({recipe, std::nullopt}, *backend_, side_backend_));
  }
  control_.open(recipe.shown_step > 0 ? std::optional(recipe.shown_step) : std::nullopt);
}

void SessionWorker::open_recipe(const Recipe& recipe, bool is_alone) {
  if (!is_alone || !analysed_) return open({recipe, std::nullopt});
  control_.compare({});
  archive_.clear();
  view_.clear();
  go_over_to(recipe);
  analysed_->choose_as(recipe);
}

/// Makes a change at the present step; keeps the former future as an earlier run.
void SessionWorker::begin_other_future(const std::function<void()>& change) {
  std::optional<EarlierRun> former;
  if (run().latest_step() > run().step()) former = EarlierRun{run().whole_curves(), run().recipe()};
  change();
  if (!former) return;
  archive_.change(std::move(*former), run().step());
  analysed_->forget_results(run().step());
}

void SessionWorker::leave_out_batch(std::int64_t step) {
  if (step <= run().oldest_step() || step > run().latest_step() + 1)
    throw Error(ExitCode::bad_input, "skip: step " + std::to_string(step) + " cannot be left out; choose one of " +
                                         std::to_string(run().oldest_step() + 1) + " to " +
                                         std::to_string(run().latest_step() + 1));
  analysed_->go_to(step - 1);
  begin_other_future([&] { run().leave_out_batch(); });
  control_.restart_clock(run().step(), seconds());
  analyse_afresh();
  report(Severity::info, "the batch of step " + std::to_string(step) + " is left out");
}

void SessionWorker::freeze(const std::string& part, bool on) {
  begin_other_future([&] { run().freeze(part, on); });
  report(Severity::info, part + (on ? " keeps its weights from here on" : " learns again"));
}

void SessionWorker::operate(const nlohmann::json& value) {
  if (value.empty() && !analysed_->inspection_moves_eigenvalues())
    return report(Severity::info,
                  "drag eigenvalues in the Koopman spectrum first; then the weights can be fitted to them");
  begin_other_future([&] { analysed_->operate(value); });
  control_.restart_clock(run().step(), seconds());
  analyse_afresh();
  report(Severity::info,
         "the key projections have the moved eigenvalues now; train on to see whether they spring back");
}

void SessionWorker::change(const std::string& key, double to, bool is_live) {
  begin_other_future([&] { run().set(key, to, is_live); });
  // Settings of the training do not change results for the present weights; settings of a layer do.
  if (key.find('.') == std::string::npos) return;
  analysed_->forget_results();
  analyse_afresh();
}

void SessionWorker::save(const std::filesystem::path& path, Existing existing) {
  try {
    report(Severity::info, "snapshot written: " + write_safetensors(path, present_snapshot().file, existing).string());
  } catch (const std::bad_alloc&) {
    throw Error(ExitCode::out_of_memory, path.string() + " was not written: not enough memory for its tensors");
  }
}

/// A snapshot of the run, or the last saved state if the device no longer answers.
Snapshot SessionWorker::present_snapshot() {
  try {
    return run().snapshot();
  } catch (const Error& error) {
    std::optional<Snapshot> kept = error.code() == ExitCode::no_gpu ? run().kept_snapshot() : std::nullopt;
    if (!kept) throw;
    report(Severity::warning,
           "the device no longer answers; the last saved state is that of step " + std::to_string(kept->step));
    return *kept;
  }
}

void SessionWorker::move_to(std::unique_ptr<Backend> target, Precision precision) {
  const bool was_running = control_.running();
  const double trained = trained_;
  Snapshot snapshot = present_snapshot();
  snapshot.recipe.precision = precision;
  std::unique_ptr<Backend> side;
  auto moved = analyse({snapshot.recipe, snapshot, "", {}, {}, run().folder()}, *target, side);
  archive_run();
  take_over(std::move(moved));
  side_backend_ = std::move(side);
  backend_ = std::move(target);
  device_is_lost_ = false;
  trained_ = trained;
  control_.resume(was_running);
}

void SessionWorker::change_device(const std::string& name) {
  move_to(options_.make_backend(name, options_.threads), run().recipe().precision);
}

void SessionWorker::change_precision(Precision precision) {
  if (!backend_->set_precision(precision)) {
    throw Error(ExitCode::bad_input, backend_->description() + " computes in fp32 only; switch to a GPU first");
  }
  move_to(options_.make_backend(backend_->name(), options_.threads), precision);
}

void SessionWorker::take_checksum() {
  if (checksum_step_ == run().step() && !checksum_.empty()) return;
  checksum_ = run().trainer().checksum();
  checksum_step_ = run().step();
  same_as_ = archive_.recognise(checksum_, checksum_step_);
}

// At rest the step and its checksum are shown at once; slow analyses follow with the next observation.
void SessionWorker::analyse_and_publish() {
  last_publication_ = seconds();
  is_stale_ = false;
  bool has_failed = analysed_ && !device_is_lost_;
  if (has_failed) {
    guarded([&] {
      if (!control_.running()) take_checksum();
      is_stale_ = scheduler_.update_due(*analysed_, control_.running()) || is_stale_;
      has_failed = false;
    });
  }
  publish();  // reports the failure
  // Tries once more; if that fails again, waits for a change.
  const bool is_repeated = events_.size() > 1 && events_.back().text == events_[events_.size() - 2].text;
  if (has_failed && is_repeated) is_stale_ = false;
}

bool SessionWorker::is_due_to_publish() const { return seconds() - last_publication_ >= 1.0 / options_.publish_hz; }

void SessionWorker::publish() {
  if (analysed_ && control_.running()) control_.measure_speed(run().step(), seconds());
  mailbox_->publish(observation(), taken_);
}

std::shared_ptr<const Observation> SessionWorker::observe(AnalysisSet analyses) {
  analysed_->bring_up_to_date(analyses);
  take_checksum();
  return observation();
}

std::shared_ptr<const Observation> SessionWorker::observation() const {
  auto now = std::make_shared<Observation>();
  if (analysed_) {
    *now = analysed_->describe();
    now->running = control_.running();
    now->stopped_non_finite = control_.stopped_non_finite();
    now->checksum = checksum_;
    now->checksum_step = std::max<std::int64_t>(0, checksum_step_);
    now->same_as = same_as_;
    now->runs.back().siblings = siblings_key(analysed_->run().recipe());
    now->runs.back().seed = now->seed;
    now->steps_per_second = control_.steps_per_second();
    if (now->latest_step > now->step) now->ahead = analysed_->run().whole_curves();
    now->speed_limit = control_.speed_limit();
    now->rebuilds_to = control_.rebuilds_to();
    now->opened = opened_;
    now->follows = follows_;
    now->view = view_;
    std::vector<RunCurves> earlier;
    for (const EarlierRun& one : archive_.runs()) earlier.push_back(one.curves);
    now->runs.insert(now->runs.begin(), earlier.begin(), earlier.end());
  }
  now->events.assign(events_.begin(), events_.end());
  return now;
}

}  // namespace afterglow
