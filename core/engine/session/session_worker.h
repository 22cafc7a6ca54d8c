// The work of a session: one turn takes commands, trains a step, runs analyses and publishes. It creates no thread: a
// session calls `turn` on its own thread, a test directly.
#pragma once
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "core/engine/session/analysed_run.h"
#include "core/engine/session/analysis_scheduler.h"
#include "core/engine/session/mailbox.h"
#include "core/engine/session/session.h"
#include "core/engine/session/session_parts.h"
#include "core/io/error.h"

namespace afterglow {

class SessionWorker {
 public:
  SessionWorker(std::string recipe, SessionOptions options, Mailbox& mailbox);

  /// Creates the back end and opens the recipe, on the thread that will call `turn`.
  void begin();
  /// One turn; blocks if there is nothing to do. False: the session ends.
  bool turn();
  /// How long a turn waits for commands; an hour where nothing falls due.
  std::chrono::milliseconds wait() const;
  /// After the last turn: passes the run to `at_end` if set.
  void end();

  /// Carries out a command. Throws Error(bad_input) for an unknown command or an invalid value.
  void apply(const Command& command);
  /// Whether the engine has a command of this name.
  static bool knows(std::string_view name);
  /// Goes to the moment that a recipe shows: from the last saved state that both runs share, else by repeating the
  /// training. `is_alone` drops the earlier runs and the present one.
  void open_recipe(const Recipe& recipe, bool is_alone);
  /// An observation with these analyses up to date, whatever the window requests.
  std::shared_ptr<const Observation> observe(AnalysisSet analyses);

  bool is_open() const { return run_ != nullptr; }
  AnalysedRun& run() { return *run_; }
  const RunControl& control() const { return control_; }
  /// The last reported message; may be empty.
  std::string last_report() const { return events_.empty() ? "" : events_.back().text; }
  /// The exit code for a program that cannot go on after the last failure.
  ExitCode last_failure() const { return last_failure_; }

 private:
  struct Commands;  // what each command does (session_commands.cpp)
  void guarded(const std::function<void()>& work);
  void report(Severity severity, const std::string& text);
  void take_commands();
  double seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }
  bool is_training() const { return control_.running() && run_; }
  void train();
  bool is_over() const { return control_.is_over(run_->step(), run_->finished()); }
  void note_step();
  void end_step();
  void train_while_waiting();
  void end_overlapped_step() {
    if (run_->is_under_way()) guarded([&] { end_step(); });
  }
  /// Trains until step `until`; -1: to the end.
  void start(std::int64_t until);
  void restart_clock() { control_.restart_clock(run_->step(), seconds()); }
  /// Rewinds to a step at once, or, if that takes long, by repeating steps, which the user can pause. A later step is
  /// reached by training.
  void go_to(std::int64_t step);
  /// Of a run in a folder: shows each new state from now on, or stays.
  void follow(bool on);
  /// Opens another run; if that fails, the present one stays.
  void open(const SavedRun& saved);
  /// Says what is read while that takes long.
  void open(const OpeningRun& opening);
  std::unique_ptr<AnalysedRun> analyse(const SavedRun& saved, Backend& backend, std::unique_ptr<Backend>& side);
  void train_next_compared();
  void stop_if_requested();
  void report_best_step();
  std::unique_ptr<AnalysedRun> load(const SavedRun& saved);
  void archive_run() {
    if (run_) archive_.replace({run_->whole_curves(), run_->recipe()});
  }
  void take_over(std::unique_ptr<AnalysedRun> fresh);
  void go_over_to(const Recipe& recipe);
  void watch_folder();
  /// Writes the user's notes on another program's run.
  void keep_notes();
  Snapshot present_snapshot();
  void take_checksum();
  bool has_pieces() const { return run_ && !device_is_lost_ && scheduler_.has_pieces(*run_, control_.running()); }
  /// Makes every analysis due at once after a change of what is analysed.
  void analyse_afresh();
  /// `answers`: only with what shows the effect of a command.
  void analyse_and_publish(bool answers);
  void publish();
  std::shared_ptr<const Observation> observation() const;

  SessionOptions options_;
  std::string first_recipe_;
  Mailbox* mailbox_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Backend> side_backend_;  // for analyses on a second stream; created with the first large model
  std::unique_ptr<AnalysedRun> run_;
  RunArchive archive_;
  RunControl control_;
  AnalysisScheduler scheduler_;
  std::deque<Event> events_;
  std::string checksum_, same_as_;
  std::string view_;                             // of the opened figure
  bool follows_ = false;                         // each new state of the folder is shown
  double next_update_ = 0, soonest_update_ = 0;  // of the folder; when the system says that it has changed
  bool has_lost_folder_ = false;
  std::uint64_t opened_ = 0;         // number of runs opened
  std::uint64_t announced_ = 0;      // the last of them that was published
  std::uint64_t taken_ = 0;          // commands from the mailbox
  std::int64_t checksum_step_ = -1;  // -1: unknown
  ExitCode last_failure_ = ExitCode::failure;
  bool device_is_lost_ = false;  // no call to the device until the run has moved to another
  bool is_stale_ = true;         // something has changed since the last observation
  bool is_over_ = false;         // the session ends
  double last_taken_ = -1e9;     // when the window last took an observation
  EvenRate publications_{4};     // an analysis that took long delays them
  EvenRate answers_{0.5};        // those that show a command first
  double step_began_ = 0;
  double trained_ = 0;  // seconds of training of the present run
  bool has_new_notes_ = false;
  nlohmann::json kept_notes_;  // of a run in a folder, as they are in its file
};

}  // namespace afterglow
