// The work of a session: one turn takes commands, trains a step, makes analyses and publishes. It needs no thread of
// its own; a session gives it one, a test calls `turn`.
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

  /// Makes the back end and opens the recipe, on the thread that will call `turn`.
  void begin();
  /// One turn; waits where there is nothing to do. False: the session ends.
  bool turn();
  /// Hands the run over where that is wished, after the last turn.
  void end();

  /// Carries a command out. Throws Error(bad_input) for one that the engine has not, or whose value is none of its own.
  void apply(const Command& command);

  // What the commands' handlers do (command_handlers.cpp).
  bool is_open() const { return analysed_ != nullptr; }
  AnalysedRun& analysed() { return *analysed_; }
  TrainingRun& run() { return analysed_->run(); }
  RunControl& control() { return control_; }
  AnalysisScheduler& scheduler() { return scheduler_; }
  const SessionOptions& options() const { return options_; }
  void report(Severity severity, const std::string& text);
  /// What was reported last; empty: nothing.
  std::string last_report() const { return events_.empty() ? "" : events_.back().text; }
  /// With which exit code a program ends that cannot go on after what failed last.
  ExitCode last_failure() const { return last_failure_; }
  /// The moment with these analyses made for it, whatever the window asks for.
  std::shared_ptr<const Observation> look(AnalysisSet analyses);
  /// What is asked of the model has changed: every analysis is due at once.
  void analyse_afresh();
  /// Trains until step `until`; -1: to the end.
  void start(std::int64_t until);
  void train_more(std::int64_t count);
  /// To a step that was trained before, at once; where that takes long, as a rebuilding that can be paused. To a later
  /// one as training.
  void go_to(std::int64_t step);
  /// Where the run is, or is on its way to as a rebuilding.
  std::int64_t aim() const;
  /// The run's own recipe from step 0, with another seed.
  void restart(std::uint64_t seed);
  /// The present run stays as it is, in grey; a copy goes on from here.
  void branch();
  /// Throws an earlier run away by its name; the present one with an empty name: the newest earlier run comes back, or
  /// else its own recipe at step 0.
  void discard(const std::string& name);
  /// Changes a setting; `is_live` as in TrainingRun::set.
  void change(const std::string& key, double to, bool is_live);
  /// Goes to just before step `step` and leaves its batch out of the training.
  void leave_out_batch(std::int64_t step);
  /// A part stops learning, or learns again (TrainingRun::freeze).
  void freeze(const std::string& part, bool on);
  /// Fits the weights to moved eigenvalues (AnalysedRun::operate).
  void operate(const nlohmann::json& value);
  /// Opens a run in the place of the present one, which stays when this one cannot be opened.
  void open(const SavedRun& saved);
  /// Goes to the moment that a recipe shows: from the last kept state that it shares with the present run, else by
  /// making it again. `is_alone` throws the earlier runs away, and the present one.
  void open_recipe(const Recipe& recipe, bool is_alone);
  /// Trains presets to their ends, one after the other, or the run's own recipe with so many seeds from its own on;
  /// opening anything else ends it.
  void compare(const std::vector<std::string>& presets);
  void compare_seeds(std::int64_t count);
  void save(const std::filesystem::path& path, Existing existing);
  /// The run goes on elsewhere from its present step; what came before stays as an earlier run.
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
  std::unique_ptr<AnalysedRun> analyse(const SavedRun& saved, Backend& backend, std::unique_ptr<Backend>& beside);
  void train_next_compared();
  void stop_if_requested();
  void report_best_step();
  std::unique_ptr<AnalysedRun> load(const SavedRun& saved);
  void archive_run();
  void take_over(std::unique_ptr<AnalysedRun> fresh);
  void discard_present();
  void go_over_to(const Recipe& recipe);
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
  std::unique_ptr<Backend>
      side_backend_;  // of looks, where they are made beside; made when the first large model is opened
  std::unique_ptr<AnalysedRun> analysed_;
  RunArchive archive_;
  RunControl control_;
  AnalysisScheduler scheduler_;
  std::deque<Event> events_;
  std::string checksum_, same_as_;
  std::string view_;                 // of the figure that was opened
  std::uint64_t opened_ = 0;         // runs
  std::uint64_t announced_ = 0;      // of them
  std::uint64_t taken_ = 0;          // commands from the mailbox
  std::int64_t checksum_step_ = -1;  // -1: unknown
  ExitCode last_failure_ = ExitCode::failure;
  bool device_is_lost_ = false;     // nothing is asked of it until the run has moved
  bool is_stale_ = true;            // something has changed since the last observation
  bool is_over_ = false;            // the session ends
  double last_taken_ = -1e9;        // seconds; when the window had looked last
  double last_publication_ = -1e9;  // seconds
  double step_began_ = 0;           // seconds
  double trained_ = 0;              // seconds of training that went into the run here
};

}  // namespace afterglow
