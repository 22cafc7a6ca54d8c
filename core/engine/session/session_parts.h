// Parts of a session's worker that own neither run nor clock: what is trained, what is kept of earlier runs, and what
// is shown of a model that is still being read.
#pragma once
#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/engine/observation/observation.h"
#include "core/engine/training/objective.h"
#include "core/recipe/recipe.h"

namespace afterglow {

/// A run that will be trained to its end.
struct ComparedRun {
  std::string name;    ///< of its curves: "seed 8"
  std::string recipe;  ///< JSON text
  bool operator==(const ComparedRun&) const = default;
};

/// Events at a rate. One that is late, by at most so many intervals, shortens the next ones, so that the rate is kept.
class EvenRate {
 public:
  explicit EvenRate(double most_late) : most_late_(most_late) {}
  bool is_due(double seconds) const { return seconds >= next_; }
  void count(double seconds, double rate) { next_ = std::max(next_, seconds - most_late_ / rate) + 1 / rate; }
  /// The next one is due at once.
  void restart() { next_ = 0; }

 private:
  double most_late_, next_ = 0;  // intervals, seconds
};

/// Whether a session trains, how far, what follows, and how fast. The worker passes steps and seconds.
class RunControl {
 public:
  bool running() const { return running_; }
  /// Whether the last step ended with a non-finite number.
  bool stopped_non_finite() const { return stopped_non_finite_; }
  double steps_per_second() const { return steps_per_second_; }
  /// The step up to which training is repeated at full speed; -1: none.
  std::int64_t rebuilds_to() const { return rebuilds_to_; }
  /// Maximal steps per second, except while repeating; 0: unlimited.
  double speed_limit() const { return speed_limit_; }
  void limit_speed(double steps_per_second) {
    speed_limit_ = steps_per_second;
    steps_.restart();
  }
  /// Moves the limit by `by` places in 1, 2, 5, .., 100 steps per second, unlimited.
  void change_speed(std::int64_t by);

  /// Trains until step `until`; -1: until the run is finished.
  void start(std::int64_t until);
  /// Trains `count` steps more than `step`, or than already requested, so that repeated commands add up.
  void train_more(std::int64_t count, std::int64_t step);
  /// Repeats the steps until `until`.
  void rebuild(std::int64_t until) {
    start(until);
    rebuilds_to_ = until;
  }
  void pause() {
    running_ = false;
    rebuilds_to_ = -1;
  }
  /// Restores `running` after a change of device or seed.
  void resume(bool running) { running_ = running; }
  /// Pauses; `is_non_finite`: because of a non-finite number.
  void rest(bool is_non_finite) {
    pause();
    stopped_non_finite_ = is_non_finite;
  }

  /// Another run has been opened: repeats its steps until `until` if given, else pauses.
  void open(std::optional<std::int64_t> until);
  /// Whether no step is left: the step to pause at is reached, or the run is `finished` (a command in the recipe may
  /// move its end).
  bool is_over(std::int64_t step, bool finished) const { return pause_at_ >= 0 ? step >= pause_at_ : finished; }
  /// Whether the next step may begin now.
  bool is_due(double seconds) const { return rebuilds_to_ >= 0 || speed_limit_ <= 0 || steps_.is_due(seconds); }
  /// A step begins.
  void count_step(double seconds) {
    if (speed_limit_ > 0) steps_.count(seconds, speed_limit_);
  }

  /// Trains these runs to their ends, one after the other; opening any other run cancels that.
  void compare(std::deque<ComparedRun> runs) { compared_ = std::move(runs); }
  /// Removes and returns the next one; nothing without one.
  std::optional<ComparedRun> next_compared();
  const std::deque<ComparedRun>& compared() const { return compared_; }

  /// Starts to measure the speed here.
  void restart_clock(std::int64_t step, double seconds) {
    clock_start_ = seconds;
    clock_step_ = step;
  }
  /// Updates the speed if half a second has passed since the last time.
  void measure_speed(std::int64_t step, double seconds);

 private:
  bool running_ = false, stopped_non_finite_ = false;
  std::int64_t pause_at_ = -1;  // -1: the recipe's last step
  std::int64_t rebuilds_to_ = -1;
  double speed_limit_ = 0;
  EvenRate steps_{0.5};  // without haste after a pause
  std::deque<ComparedRun> compared_;
  double clock_start_ = 0, steps_per_second_ = 0;
  std::int64_t clock_step_ = 0;
};

struct EarlierRun {
  RunCurves curves;
  Recipe recipe;  ///< repeats the run up to its last step
};

/// What a session keeps of earlier runs: curves for comparison, recipes that repeat them, and checksums that recognise
/// identical runs.
class RunArchive {
 public:
  /// Earlier runs, oldest first; at most 32, of which the oldest are dropped.
  const std::vector<EarlierRun>& runs() const { return runs_; }
  /// The present run's number, counted from 1, and its name "run 3".
  int number() const { return number_; }
  std::string name() const { return "run " + std::to_string(number_); }

  /// Another run replaces the present one; a run without steps is not kept.
  void replace(EarlierRun present);
  /// Keeps the present run; a copy goes on from `step` under the next number.
  void branch(EarlierRun present, std::int64_t step);
  /// A change at `step` begins another future: keeps `former`, the present run before the change.
  void change(EarlierRun former, std::int64_t step);
  /// Drops the newest run of that name; false without one.
  bool discard(const std::string& name);
  /// Drops all of them.
  void clear() { runs_.clear(); }
  /// Removes the newest earlier run and returns it.
  std::optional<EarlierRun> take_newest();

  /// Whether a model with this many weights is compared at this step. The interval grows with the cost of a checksum,
  /// and doubles when too many are stored.
  bool wants_checksum(std::int64_t step, std::int64_t weights) const {
    constexpr std::int64_t quickly_summed = 2'000'000;
    return step % (checksum_interval_ * std::max<std::int64_t>(1, weights / quickly_summed)) == 0;
  }
  /// "run 1" if that earlier run had the same checksum; otherwise empty. Stores the checksum.
  std::string recognise(const std::string& checksum, std::int64_t step);

 private:
  void keep(EarlierRun run);

  std::vector<EarlierRun> runs_;
  int number_ = 1;
  std::map<std::string, std::pair<int, std::int64_t>> checksums_;  // checksum -> run number, step
  std::int64_t checksum_interval_ = 100;                           // steps
};

/// Shows the parts of another library's model while its weights are being read.
class ArrivingModel {
 public:
  explicit ArrivingModel(const Recipe& recipe);
  /// Records that a parameter is loaded. True if one more part is complete.
  bool note(const Parameter& parameter);
  /// The parts before the first one without weights. The name stays empty until all weights are loaded.
  ModelSummary summary() const;

 private:
  std::vector<ModelPart> parts_;
  std::vector<bool> is_there_;
  std::size_t shown_ = 0;
};

}  // namespace afterglow
