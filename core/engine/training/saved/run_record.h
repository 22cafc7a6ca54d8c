// The past of a run: saved states, and its measurements step by step. After a rewind they still go beyond the present
// step.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/engine/observation/observation.h"
#include "core/engine/observation/trajectory_view.h"
#include "core/engine/training/trainer.h"

namespace afterglow {

/// States saved at some steps within a memory limit, so that any step can be reached from the last state before it by
/// training forward. Recent steps are dense, old ones sparse.
class History {
 public:
  static constexpr std::size_t default_limit = std::size_t{512} << 20;  ///< bytes

  explicit History(std::size_t limit = default_limit) : limit_(limit) {}

  /// Whether to save the state after `step`, given the size of a state.
  bool wants(std::int64_t step, std::size_t state_bytes) const;
  /// Saves a state unless there is one of the same step. Drops older ones to stay within the limit, never the first.
  void keep(TrainerState state);
  /// Keeps the state saved after `step` whatever the limit, until another one is pinned or `forget_after` drops it.
  void pin(std::int64_t step) { pinned_ = step; }
  /// Memory of a dropped state for the next one, so that saving for hours neither allocates nor fragments memory.
  TrainerState take_spare() { return std::exchange(spare_, {}); }
  /// The last saved state at or before `step`; nullptr without one.
  const TrainerState* before(std::int64_t step) const;
  /// Drops the states after `step`.
  void forget_after(std::int64_t step);

  /// Step of the first saved state; -1 without one.
  std::int64_t oldest() const { return frames_.empty() ? -1 : frames_.front().step; }

  /// All saved states. Checksums are computed on request, each once.
  std::shared_ptr<const std::vector<KeptState>> kept() const;

  std::size_t bytes() const { return bytes_; }
  std::size_t frames() const { return frames_.size(); }

 private:
  bool thin_out();
  std::size_t limit_;
  std::size_t bytes_ = 0;
  std::int64_t pinned_ = -1;
  std::vector<TrainerState> frames_;  // ascending by step
  TrainerState spare_;
  mutable std::map<std::int64_t, std::string> checksums_;                // of present and former states, by step
  mutable std::shared_ptr<const std::vector<KeptState>> cached_states_;  // null: states have changed since
};

/// Summaries [steps, d] after some steps, in order.
struct TrajectoryRows {
  std::vector<std::int64_t> steps;
  std::vector<double> values;
};

/// The trajectory of training: a summary vector at steps that depend on the recipe alone, and its Karhunen-Loève modes.
class Trajectory {
 public:
  static constexpr std::int64_t max_rows = TrajectoryView::max_steps;

  /// The number `planned` of the recipe's steps sets the distance of rows.
  explicit Trajectory(std::int64_t planned);
  /// Records the summary after `step` if the schedule includes it. Steps must ascend.
  void record(std::int64_t step, std::span<const double> summary);
  /// Drops the rows after `step`.
  void truncate(std::int64_t step);
  /// The rows up to `step`; and the same from an earlier recording, which replace the present ones.
  TrajectoryRows rows(std::int64_t step) const;
  void take(TrajectoryRows rows) { rows_ = std::move(rows); }
  /// From the rows up to `step`; `summary` describes a row. Costs some milliseconds.
  std::shared_ptr<const TrajectoryView> view(const std::string& summary, std::int64_t step) const;

 private:
  std::int64_t interval_;
  TrajectoryRows rows_;
};

/// A step at which training stopped by itself, and why.
struct Stop {
  std::int64_t step = 0;
  std::string reason;       ///< "accuracy > 0.9"
  bool is_failure = false;  ///< the next step was not finite; another future may avoid that
  bool operator==(const Stop&) const = default;
};

/// As a snapshot stores it. All curves over steps are equally long; so are the two of the held-out results.
struct RecordedPast {
  std::int64_t first_step = 1;  ///< of the curves
  std::vector<double> loss, accuracy, learning_rate, gradient_norm;
  std::vector<std::vector<double>> layer_gradient_norms;  ///< one for each part of the model
  std::vector<double> held_out_steps, held_out_values;
  TrajectoryRows path;
  std::vector<Stop> stops{};  ///< steps ascend
};

/// Curves, held-out results and trajectory.
class RunRecord {
 public:
  /// `layers` name the curves of the gradient norms; `planned` is the recipe's number of steps.
  RunRecord(std::vector<std::string> layers, std::int64_t planned) : names_(std::move(layers)), path_(planned) {
    layer_norms_.resize(names_.size());
  }

  /// The curves begin after a step whose past is unknown.
  void begin_after(std::int64_t step) { first_step_ = step + 1; }
  /// Takes over what a snapshot holds.
  void take(const RecordedPast& past);
  /// The measurements up to `step`.
  RecordedPast past(std::int64_t step) const;

  /// Replaces everything measured from this step on.
  void append(const StepResult& result);
  /// Extends the trajectory after a finite step.
  void follow(const StepResult& result) { path_.record(result.step, result.summary); }
  /// Adds a held-out result; in ascending order of steps, known ones are skipped.
  void add_held_out(std::int64_t step, double value);
  bool has_held_out(std::int64_t step) const;
  /// Adds a stop once for each step and reason.
  void add_stop(const Stop& stop);
  /// Another future begins at `step`: drops the record of a failure after it.
  void forget_failure(std::int64_t step);
  const std::vector<Stop>& stops() const { return stops_; }
  /// Drops what was measured beyond `step`.
  void truncate(std::int64_t step);

  /// The curves up to `step`, without a name; marks are those of the stops.
  RunCurves curves(std::int64_t step) const;
  Values held_out_steps(std::int64_t step) const { return held_out_steps_.view().first(held_out_until(step)); }
  Values held_out_values(std::int64_t step) const { return held_out_values_.view().first(held_out_until(step)); }
  const Trajectory& path() const { return path_; }

 private:
  std::size_t size_until(std::int64_t step) const;
  std::size_t held_out_until(std::int64_t step) const;

  std::vector<std::string> names_;
  std::int64_t first_step_ = 1;
  GrowingCurve loss_, accuracy_, learning_rate_, gradient_norm_, held_out_steps_, held_out_values_;
  std::vector<GrowingCurve> layer_norms_;
  Trajectory path_;
  std::vector<Stop> stops_;
};

}  // namespace afterglow
