// Whether a session trains, how far, what comes next, and how fast it goes. It owns no run and no clock: the worker
// tells it steps and seconds.
#pragma once
#include <cstdint>
#include <deque>
#include <optional>
#include <string>

namespace afterglow {

/// A run that waits to be trained to its end.
struct ComparedRun {
  std::string name;    ///< of its curves: "seed 8"
  std::string recipe;  ///< JSON text
  bool operator==(const ComparedRun&) const = default;
};

class RunControl {
 public:
  bool running() const { return running_; }
  /// The last step ended with a number that was not finite.
  bool stopped_non_finite() const { return stopped_non_finite_; }
  double steps_per_second() const { return steps_per_second_; }
  /// The step that is being made again, as fast as it goes; -1: none.
  std::int64_t rebuilds_to() const { return rebuilds_to_; }
  /// Steps a second at most, but for a rebuilding; 0: as fast as it goes.
  double speed_limit() const { return speed_limit_; }
  void limit_speed(double steps_per_second);
  /// So many places faster, or slower, among 1, 2, 5, .., 100 steps a second and as fast as it goes.
  void change_speed(std::int64_t by);

  /// Trains until step `until`; -1: until the run is finished.
  void start(std::int64_t until);
  /// `count` steps more than `step`, or than what is on its way: commands that come faster than steps add up.
  void train_more(std::int64_t count, std::int64_t step);
  /// Makes the steps until `until` again.
  void rebuild(std::int64_t until);
  void pause();
  /// Goes on, or rests, as before a change of device or seed.
  void resume(bool running) { running_ = running; }
  /// Rests at a step whose numbers were finite or not.
  void rest(bool is_non_finite);

  /// Another run has been opened: it is rebuilt until step `until` where that is given, and rests otherwise.
  void open(std::optional<std::int64_t> until);
  /// Whether nothing is left to train: the step to pause at has been reached, or else the run is `finished`, whose end
  /// a command of the recipe may move.
  bool is_over(std::int64_t step, bool finished) const;
  /// Whether the next step may begin now, and that it does.
  bool is_due(double seconds) const { return rebuilds_to_ >= 0 || speed_limit_ <= 0 || seconds >= next_step_at_; }
  void begin_step(double seconds);

  /// Runs to be trained to their ends, one after the other; opening anything else ends it.
  void compare(std::deque<ComparedRun> runs) { compared_ = std::move(runs); }
  /// Takes the next one; nothing when there is none.
  std::optional<ComparedRun> next_compared();
  const std::deque<ComparedRun>& compared() const { return compared_; }

  /// Steps a second are counted from here on.
  void restart_clock(std::int64_t step, double seconds);
  /// Measures them, when half a second has passed since the last time.
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
