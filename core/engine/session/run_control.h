// Whether a session trains, how far, what follows, and how fast. It owns neither run nor clock: the worker passes steps
// and seconds.
#pragma once
#include <cstdint>
#include <deque>
#include <optional>
#include <string>

namespace afterglow {

/// A run that will be trained to its end.
struct ComparedRun {
  std::string name;    ///< of its curves: "seed 8"
  std::string recipe;  ///< JSON text
  bool operator==(const ComparedRun&) const = default;
};

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
  void limit_speed(double steps_per_second);
  /// Moves the limit by `by` places in 1, 2, 5, .., 100 steps per second, unlimited.
  void change_speed(std::int64_t by);

  /// Trains until step `until`; -1: until the run is finished.
  void start(std::int64_t until);
  /// Trains `count` steps more than `step`, or than already requested, so that repeated commands add up.
  void train_more(std::int64_t count, std::int64_t step);
  /// Repeats the steps until `until`.
  void rebuild(std::int64_t until);
  void pause();
  /// Restores `running` after a change of device or seed.
  void resume(bool running) { running_ = running; }
  /// Pauses; `is_non_finite`: because of a non-finite number.
  void rest(bool is_non_finite);

  /// Another run has been opened: repeats its steps until `until` if given, else pauses.
  void open(std::optional<std::int64_t> until);
  /// Whether no step is left: the step to pause at is reached, or the run is `finished` (a command in the recipe may
  /// move its end).
  bool is_over(std::int64_t step, bool finished) const;
  /// Whether the next step may begin now.
  bool is_due(double seconds) const { return rebuilds_to_ >= 0 || speed_limit_ <= 0 || seconds >= next_step_at_; }
  /// A step begins.
  void count_step(double seconds);

  /// Trains these runs to their ends, one after the other; opening any other run cancels that.
  void compare(std::deque<ComparedRun> runs) { compared_ = std::move(runs); }
  /// Removes and returns the next one; nothing without one.
  std::optional<ComparedRun> next_compared();
  const std::deque<ComparedRun>& compared() const { return compared_; }

  /// Starts to measure the speed here.
  void restart_clock(std::int64_t step, double seconds);
  /// Updates the speed if half a second has passed since the last time.
  void measure_speed(std::int64_t step, double seconds);

 private:
  bool running_ = false, stopped_non_finite_ = false;
  std::int64_t pause_at_ = -1;  // -1: the recipe's last step
  std::int64_t rebuilds_to_ = -1;
  double speed_limit_ = 0, next_step_at_ = 0;
  std::deque<ComparedRun> compared_;
  double clock_start_ = 0, steps_per_second_ = 0;
  std::int64_t clock_step_ = 0;
};

}  // namespace afterglow
