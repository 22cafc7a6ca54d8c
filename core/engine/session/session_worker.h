// The work of a session: one turn takes commands, trains a step, runs analyses and publishes. It creates no thread: a
// session calls `turn` on its own thread, a test directly.
#pragma once
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "core/engine/session/analysed_run.h"
#include "core/engine/session/analysis_scheduler.h"
#include "core/engine/session/mailbox.h"
#include "core/engine/session/run_archive.h"
#include "core/engine/session/run_control.h"
#include "core/engine/session/session.h"
#include "core/io/atomic_file.h"
#include "core/io/error.h"

namespace afterglow {

class SessionWorker {
 public:
  SessionWorker(std::string recipe, SessionOptions options, Mailbox& mailbox);

  /// Creates the back end and opens the recipe, on the thread that will call `turn`.
  void begin();
  /// One turn; blocks if there is nothing to do. False: the session ends.
  bool turn();
  /// After the last turn: passes the run to `at_end` if set.
  void end();

  /// Carries out a command. Throws Error(bad_input) for an unknown command or an invalid value.
  void apply(const Command& command);

  // What the commands' handlers call (command_handlers.cpp).
  bool is_open() const { return analysed_ != nullptr; }
  AnalysedRun& analysed() { return *analysed_; }
  TrainingRun& run() { return analysed_->run(); }
  RunControl& control() { return control_; }
  AnalysisScheduler& scheduler() { return scheduler_; }
  const SessionOptions& options() const { return options_; }
  void report(Severity severity, const std::string& text);
  /// The last reported message; may be empty.
  std::string last_report() const { return events_.empty() ? "" : events_.back().text; }
  /// The exit code for a program that cannot go on after the last failure.
  ExitCode last_failure() const { return last_failure_; }
  /// An observation with these analyses up to date, whatever the window requests.
  std::shared_ptr<const Observation> observe(AnalysisSet analyses);
  /// Makes every analysis due at once after a change of what is analysed.
  void analyse_afresh();
  /// Trains until step `until`; -1: to the end.
  void start(std::int64_t until);
  void train_more(std::int64_t count);
  /// Rewinds to a step at once, or, if that takes long, by repeating steps, which the user can pause. A later step is
  /// reached by training.
  void go_to(std::int64_t step);
  /// The present step, or the target of a repetition in progress.
  std::int64_t aim() const;
  /// Restarts the run's recipe at step 0 with another seed.
  void restart(std::uint64_t seed);
  /// Keeps the present run as a grey curve; a copy goes on from here.
  void branch();
  /// Drops an earlier run by its name. An empty name drops the present one: the newest earlier run replaces it, or its
  /// own recipe at step 0.
  void discard(const std::string& name);
  /// Changes a setting; `is_live` as in TrainingRun::set.
  void change(const std::string& key, double to, bool is_live);
  /// Rewinds to before step `step` and leaves its batch out of the training.
  void leave_out_batch(std::int64_t step);
  /// Of a run in a folder: show the state `by` places after the present one; from now on each new one, or stay.
  void move_by(std::int64_t by);
  void follow(bool on);
  bool follows() const { return follows_; }
  /// Freezes or unfreezes a part (TrainingRun::freeze).
  void freeze(const std::string& part, bool on);
  /// Fits the weights to moved eigenvalues (AnalysedRun::operate).
  void operate(const nlohmann::json& value);
  /// Opens another run; if that fails, the present one stays.
  void open(const SavedRun& saved);
  /// Goes to the moment that a recipe shows: from the last saved state that both runs share, else by repeating the
  /// training. `is_alone` drops the earlier runs and the present one.
  void open_recipe(const Recipe& recipe, bool is_alone);
  /// Trains presets to their ends, one after the other, or the run's recipe with successive seeds; opening any other
  /// run cancels that.
  void compare(const std::vector<std::string>& presets);
  void compare_seeds(std::int64_t count);
  void save(const std::filesystem::path& path, Existing existing);
  /// Continues the run on another device; what was trained before stays as an earlier run.
  void change_device(const std::string& name);
  void change_precision(Precision precision);

 private:
  void guarded(const std::function<void()>& work);
  void take_commands();
  Mailbox::Wait wait() const;
  double seconds() const;
  void train();
  bool is_over() const;
  void begin_step();
  void end_step();
  void train_while_waiting();
  void end_overlapped_step();
  std::unique_ptr<AnalysedRun> analyse(const SavedRun& saved, Backend& backend, std::unique_ptr<Backend>& side);
  void train_next_compared();
  void stop_if_requested();
  void report_best_step();
  std::unique_ptr<AnalysedRun> load(const SavedRun& saved);
  void archive_run();
  void take_over(std::unique_ptr<AnalysedRun> fresh);
  void discard_present();
  void go_over_to(const Recipe& recipe);
  void watch_folder();
  void begin_other_future(const std::function<void()>& change);
  Snapshot present_snapshot();
  void move_to(std::unique_ptr<Backend> target, Precision precision);
  void take_checksum();
  bool has_pieces() const;
  void analyse_and_publish();
  bool is_due_to_publish() const;
  void publish();
  std::shared_ptr<const Observation> observation() const;

  SessionOptions options_;
  std::string first_recipe_;
  Mailbox* mailbox_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Backend> side_backend_;  // for analyses on a second stream; created with the first large model
  std::unique_ptr<AnalysedRun> analysed_;
  RunArchive archive_;
  RunControl control_;
  AnalysisScheduler scheduler_;
  std::deque<Event> events_;
  std::string checksum_, same_as_;
  std::string view_;      // of the opened figure
  bool follows_ = false;  // each new state of the folder is shown
  double next_update_ = 0;
  std::uint64_t opened_ = 0;         // number of runs opened
  std::uint64_t announced_ = 0;      // the last of them that was published
  std::uint64_t taken_ = 0;          // commands from the mailbox
  std::int64_t checksum_step_ = -1;  // -1: unknown
  ExitCode last_failure_ = ExitCode::failure;
  bool device_is_lost_ = false;  // no call to the device until the run has moved to another
  bool is_stale_ = true;         // something has changed since the last observation
  bool is_over_ = false;         // the session ends
  double last_taken_ = -1e9;     // when the window last took an observation
  double last_publication_ = -1e9;
  double step_began_ = 0;
  double trained_ = 0;  // seconds of training of the present run
};

}  // namespace afterglow
