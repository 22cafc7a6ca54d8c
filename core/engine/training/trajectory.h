// Records the trajectory of training: a summary vector at steps that depend on the recipe alone, and its Karhunen-Loève
// modes.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/engine/observation/trajectory_view.h"

namespace afterglow {

/// Summaries [steps, d] after some steps, in order.
struct TrajectoryRows {
  std::vector<std::int64_t> steps;
  std::vector<double> values;
};

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

}  // namespace afterglow
