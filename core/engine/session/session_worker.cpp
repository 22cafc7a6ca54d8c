// One turn of the worker.
#include "core/engine/session/session_worker.h"

#include <algorithm>
#include <new>
#include <optional>

#include "core/engine/session/session_parts.h"
#include "core/io/atomic_file.h"
#include "core/io/folders.h"
#include "core/models/checkpoints/checkpoint.h"
#include "core/recipe/recipe.h"
#include "core/recipe/run_notes.h"

namespace afterglow {
namespace {
constexpr std::size_t max_events = 50;  // messages
constexpr double immediate = 0.25;      // that going to a step may take without showing progress
constexpr double window_timeout_seconds =
    1;  // without an observation taken; the slowest window draws three times a second
}  // namespace

SessionWorker::SessionWorker(std::string recipe, SessionOptions options, Mailbox& mailbox)
    : options_(std::move(options)),
      first_recipe_(std::move(recipe)),
      mailbox_(&mailbox),
      scheduler_([this] { return seconds(); }, [this](const std::string& text) { report(Severity::warning, text); },
                 [this] { return mailbox_->has_mail(); }),
      taken_(options_.first_command) {}

void SessionWorker::begin() {
  guarded([&] {
    backend_ = options_.make_backend(options_.device, options_.threads);
    if (!options_.opened.name.empty()) return open(std::exchange(options_.opened, {}));
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
      if (run_) run_->limit_work();
      mailbox_->publish(observation(), taken_);
      if (!run_ || !run_->trainer().is_large()) return;
      run_->estimate_work();  // reported before the first analysis
      mailbox_->publish(observation(), taken_);
    });
  }
  announced_ = opened_;
  guarded([&] { watch_folder(); });
  // The effect of a command is shown before the next step and before slow analyses.
  const bool answers = taken_ != mailbox_->taken_commands() && mailbox_->is_taken() && answers_.is_due(seconds());
  if (is_training() && control_.is_due(seconds()) && !answers) guarded([&] { train(); });
  if (mailbox_->is_taken()) last_taken_ = seconds();
  if (is_training() && !device_is_lost_ && !answers && seconds() - last_taken_ < window_timeout_seconds)
    scheduler_.advance_urgent(*run_);
  // At rest a piecewise analysis gets all the time, one piece per turn.
  if (has_pieces() && !scheduler_.is_steered(control_.running()))
    is_stale_ = scheduler_.advance_pieces(*run_) || is_stale_;
  if (is_stale_ && (mailbox_->is_taken() || (is_new && !control_.running())) &&
      (answers || publications_.is_due(seconds())))
    guarded([&] { analyse_and_publish(answers); });
  return true;
}

void SessionWorker::end() {
  constexpr double worth_keeping = 5;  // seconds of training; a finished run is always kept
  if (!options_.at_end || !run_ || run_->folder()) return;
  if (!has_new_notes_ && (trained_ == 0 || (trained_ < worth_keeping && !is_over()))) return;
  options_.at_end([&] {
    std::optional<Snapshot> kept = run_->failure().empty() ? std::nullopt : run_->kept_snapshot();
    return kept ? std::move(*kept) : present_snapshot();
  });
}

std::chrono::milliseconds SessionWorker::wait() const {
  using namespace std::chrono_literals;
  const bool has_analyses = has_pieces(), is_steered = scheduler_.is_steered(control_.running());
  if ((is_training() && control_.is_due(seconds())) || (has_analyses && !is_steered)) return 0ms;
  if (has_analyses || is_stale_ || is_training()) return 4ms;  // an observation or a step falls due
  return run_ && run_->folder() ? 20ms : 1h;                   // a folder may have news
}

void SessionWorker::take_commands() {
  const Mailbox::Delivery delivery = mailbox_->receive(wait());
  is_over_ = delivery.is_over;  // commands that the window sent before, such as `save`, are still carried out
  if (run_) run_->make_urgent(delivery.requested & ~scheduler_.requested());
  if (scheduler_.request(delivery.requested)) {
    is_stale_ = true;
    if (run_ && run_->trainer().is_large()) run_->release(~delivery.requested);
  }
  const bool was_running = control_.running();
  for (const Command& command : delivery.commands) {
    ++taken_;
    if (run_) run_->journal().now = taken_;
    guarded([&] { apply(command); });
    if (run_ && run_->folder()) guarded([&] { keep_notes(); });
    is_stale_ = true;
    scheduler_.note_command();
    if (!control_.running()) publications_.restart();
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
    const bool has_lost_gpu = error.code() == ExitCode::no_gpu && run_ && backend_ && backend_->name() != "cpu";
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
  events_.push_back({run_ ? run_->step() : 0, severity, text});
  if (events_.size() > max_events) events_.pop_front();
  is_stale_ = true;
}

void SessionWorker::open(const SavedRun& saved) {
  if (!backend_) throw Error(ExitCode::no_gpu, "there is no back end to run on; start with --device cpu");
  control_.compare({});
  auto fresh = load(saved);
  archive_run();
  take_over(std::move(fresh));
  view_ = saved.view;
  for (const std::string& note : saved.notes) report(Severity::info, note);
  if (const std::string note = choose_precision(run_->recipe(), *backend_); !note.empty())
    report(Severity::warning, note);
  const bool is_rebuilt = !saved.snapshot && !saved.folder && saved.recipe.shown_step > 0;
  control_.open(is_rebuilt ? std::optional(saved.recipe.shown_step) : std::nullopt);
}

void SessionWorker::open(const OpeningRun& opening) {
  if (opening.run.wait_for(std::chrono::seconds(0)) == std::future_status::timeout) {
    if (run_) report(Severity::info, "Reading " + opening.name + ".");
    auto now = std::make_shared<Observation>(*observation());
    if (!run_) now->title = opening.name;
    mailbox_->publish(now, mailbox_->taken_commands());
  }
  open(std::exchange(*opening.run.get(), {}));
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
  const Trainer& trainer = analysed->trainer();
  if (trainer.is_only_read() || trainer.forecast() || trainer.parameters().count() < options_.side_stream_from)
    return analysed;
  try {
    if (!side) side = backend.low_priority_backend();
    if (side)
      analysed->analyse_on_side_stream(*side, {[this] { train_while_waiting(); }, [this] { end_overlapped_step(); }});
  } catch (const Error& error) {
    if (error.code() != ExitCode::out_of_memory) throw;
  }
  return analysed;
}

void SessionWorker::take_over(std::unique_ptr<AnalysedRun> fresh) {
  fresh->name = archive_.name();
  if (run_) fresh->take_over(*run_);
  view_.clear();
  ++opened_;
  run_ = std::move(fresh);
  follows_ = run_->folder() && run_->step() == run_->latest_step();
  next_update_ = soonest_update_ = 0;
  trained_ = 0;
  has_new_notes_ = false;
  kept_notes_ = note_list(run_->recipe());
  control_.rest(false);
  analyse_afresh();
  restart_clock();
}

void SessionWorker::analyse_afresh() {
  checksum_step_ = -1;
  scheduler_.retry();
  scheduler_.begin(all_analyses);
  is_stale_ = true;
}

void SessionWorker::watch_folder() {
  if (!run_ || !run_->folder()) return;
  if (run_->folder()->has_news()) next_update_ = std::min(next_update_, soonest_update_);
  if (seconds() < next_update_) return;
  const double began = seconds();
  next_update_ = began + 1;
  bool has_news = false;
  try {
    has_news = run_->folder()->update();
    has_lost_folder_ = false;
  } catch (const Error&) {
    if (std::exchange(has_lost_folder_, true)) return;  // said once; it may be made again
    throw;
  }
  const double cost = seconds() - began;  // rarely where an update takes long
  next_update_ = seconds() + std::max(1.0, 50 * cost);
  soonest_update_ = seconds() + 10 * cost;
  is_stale_ = is_stale_ || has_news;
  if (has_news && follows_ && !run_->folder()->states().empty()) go_to(newest_state);
}

void SessionWorker::keep_notes() {
  const nlohmann::json notes = note_list(run_->recipe());
  if (notes == std::exchange(kept_notes_, notes)) return;
  const std::filesystem::path file = run_->folder()->notes_file();
  ensure_folder(file.parent_path());
  write_file_atomically(file, nlohmann::json{{"notes", notes}}.dump(1), Existing::replace);
}

void SessionWorker::follow(bool on) {
  if (on) go_to(newest_state);
  follows_ = on;
}

void SessionWorker::train() {
  is_stale_ = true;
  if (is_over()) {
    control_.pause();
    if (run_->finished()) train_next_compared();
    return;
  }
  note_step();
  end_step();
}

void SessionWorker::note_step() {
  mailbox_->count_step();
  step_began_ = seconds();
  control_.count_step(seconds());
}

void SessionWorker::end_step() {
  is_stale_ = true;
  const bool is_finite = run_->train_step();
  trained_ += seconds() - step_began_;
  if (!is_finite) {
    control_.rest(true);
    report(Severity::failure, run_->failure());
  } else if (is_over()) {
    control_.pause();
    report_best_step();
  } else if (control_.rebuilds_to() < 0) {
    stop_if_requested();
  }
  if (archive_.wants_checksum(run_->step(), run_->trainer().parameters().values().elements())) take_checksum();
  if (run_->finished() || control_.stopped_non_finite()) train_next_compared();
}

/// Runs while an analysis waits for its device: ends the step in flight once it is done, publishes, and begins the
/// next. Does not begin another run, because the analysis still reads this one.
void SessionWorker::train_while_waiting() {
  if (run_->is_under_way()) {
    if (!run_->is_step_done()) return;
    end_overlapped_step();
    if (mailbox_->is_taken() && publications_.is_due(seconds())) {
      publications_.count(seconds(), options_.publish_hz);
      publish();
    }
  }
  const bool must_wait = run_->is_judged_at_each_step() || !control_.compared().empty() || is_over();
  if (!control_.running() || must_wait || !control_.is_due(seconds())) return;
  guarded([&] {
    if (run_->begin_step()) note_step();
  });
}

void SessionWorker::stop_if_requested() {
  const std::optional<std::string> reason = run_->stop_reason();
  if (!reason) return;
  control_.pause();
  report(Severity::info, "training stopped at step " + std::to_string(run_->step()) + ": " + *reason);
}

void SessionWorker::train_next_compared() {
  const std::optional<ComparedRun> next = control_.next_compared();
  if (!next) return;
  std::deque<ComparedRun> rest = control_.compared();
  open({parse_recipe(next->recipe, next->name), std::nullopt});
  run_->name = next->name;
  control_.compare(std::move(rest));
  start(-1);
}

/// A run with patience is judged by its best evaluation; training rests at its end, and the user can rewind exactly.
void SessionWorker::report_best_step() {
  if (run_->chosen_step() == run_->step()) return;
  report(Severity::info, "the held-out result was best at step " + std::to_string(run_->chosen_step()) +
                             "; rewind there to use that model");
}

void SessionWorker::start(std::int64_t until) {
  if (run_->folder()) return follow(true);
  control_.start(until);
  restart_clock();
}

void SessionWorker::go_to(std::int64_t step) {
  if (run_->folder()) {
    run_->go_to(step);
    follows_ = run_->step() == run_->latest_step();  // as a log viewer does
    return;
  }
  if (step > run_->latest_step()) return start(step);
  control_.pause();
  const std::int64_t target = std::max(run_->oldest_step(), step);
  if (step < target && target > 0)
    report(Severity::info,
           "This snapshot starts at step " + std::to_string(target) + "; rerun the recipe to go further back.");
  const double end = seconds() + immediate;
  run_->jump_towards(target);
  while (run_->step() < target && seconds() < end && run_->train_step()) {
  }
  control_.rest(!run_->failure().empty());
  if (run_->step() < target && run_->failure().empty()) control_.rebuild(target);
  restart_clock();
}

/// Replaces the present run.
void SessionWorker::go_over_to(const Recipe& recipe) {
  const std::int64_t common = common_step(run_->recipe(), recipe);
  if (recipe.shown_step > 0 && common > 0 && run_->oldest_step() == 0) {
    run_->go_over_to(recipe, common);
    control_.rest(false);
    restart_clock();
    analyse_afresh();
  } else {
    take_over(analyse({recipe, std::nullopt}, *backend_, side_backend_));
  }
  control_.open(recipe.shown_step > 0 ? std::optional(recipe.shown_step) : std::nullopt);
}

void SessionWorker::open_recipe(const Recipe& recipe, bool is_alone) {
  if (!is_alone || !run_) return open({recipe, std::nullopt});
  control_.compare({});
  archive_.clear();
  view_.clear();
  go_over_to(recipe);
  run_->choose_as(recipe);
}

/// A snapshot of the run, or the last saved state if the device no longer answers.
Snapshot SessionWorker::present_snapshot() {
  try {
    return run_->snapshot();
  } catch (const Error& error) {
    std::optional<Snapshot> kept = error.code() == ExitCode::no_gpu ? run_->kept_snapshot() : std::nullopt;
    if (!kept) throw;
    report(Severity::warning,
           "the device no longer answers; the last saved state is that of step " + std::to_string(kept->step));
    return *kept;
  }
}

void SessionWorker::take_checksum() {
  if (checksum_step_ == run_->step() && !checksum_.empty()) return;
  checksum_ = run_->trainer().checksum();
  checksum_step_ = run_->step();
  same_as_ = archive_.recognise(checksum_, checksum_step_);
}

// At rest the step and its checksum are shown at once; slow analyses follow with the next observation.
void SessionWorker::analyse_and_publish(bool answers) {
  publications_.count(seconds(), options_.publish_hz);
  if (answers) answers_.count(seconds(), options_.publish_hz);
  is_stale_ = false;
  bool has_failed = run_ && !device_is_lost_;
  if (has_failed) {
    guarded([&] {
      if (!control_.running()) take_checksum();
      is_stale_ = scheduler_.update_due(*run_, control_.running(), answers) || is_stale_;
      has_failed = false;
    });
  }
  publish();  // reports the failure
  // Tries once more; if that fails again, waits for a change.
  const bool is_repeated = events_.size() > 1 && events_.back().text == events_[events_.size() - 2].text;
  if (has_failed && is_repeated) is_stale_ = false;
}

void SessionWorker::publish() {
  if (run_ && control_.running()) control_.measure_speed(run_->step(), seconds());
  mailbox_->publish(observation(), taken_);
}

std::shared_ptr<const Observation> SessionWorker::observe(AnalysisSet analyses) {
  run_->bring_up_to_date(analyses);
  take_checksum();
  return observation();
}

std::shared_ptr<const Observation> SessionWorker::observation() const {
  auto now = std::make_shared<Observation>();
  if (run_) {
    *now = run_->describe();
    scheduler_.estimate(*run_, control_.running(), *now);
    now->running = control_.running();
    now->stopped_non_finite = control_.stopped_non_finite();
    now->checksum = checksum_;
    now->checksum_step = std::max<std::int64_t>(0, checksum_step_);
    now->same_as = same_as_;
    now->runs.back().siblings = siblings_key(run_->recipe());
    now->runs.back().seed = now->seed;
    now->steps_per_second = control_.steps_per_second();
    if (now->latest_step > now->step) now->ahead = run_->whole_curves();
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
