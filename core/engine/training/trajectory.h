// Records where training went: a summary vector at steps that the recipe alone fixes, and its Karhunen-Loeve modes.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/engine/observation/trajectory_view.h"

namespace afterglow {

/// Summaries [steps, d] after some steps, in their order.
struct TrajectoryRows {
  std::vector<std::int64_t> steps;
  std::vector<double> values;
};

class Trajectory {
 public:
  static constexpr std::int64_t max_rows = TrajectoryView::max_steps;

  /// `planned` steps of the recipe decide how far apart rows lie.
  explicit Trajectory(std::int64_t planned);
  /// Takes the summary after `step` if this is a step to be recorded. Steps come in their order.
  void record(std::int64_t step, std::span<const double> summary);
  /// Forgets the rows after `step`.
  void truncate(std::int64_t step);
  /// The rows up to `step`, and rows of an earlier recording in their place.
  TrajectoryRows rows(std::int64_t step) const;
  void take(TrajectoryRows rows) { rows_ = std::move(rows); }
  /// Of the rows up to `step`; `summary` says what a row is. Costs some milliseconds.
  std::shared_ptr<const TrajectoryView> view(const std::string& summary, std::int64_t step) const;

 private:
  std::int64_t interval_;
  TrajectoryRows rows_;
};

}  // namespace afterglow
