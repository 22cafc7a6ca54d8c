// Records where training went: a summary vector at steps that the recipe alone fixes, and its Karhunen-Loeve modes.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/engine/observation/trajectory_view.h"

namespace afterglow {

class Trajectory {
 public:
  static constexpr std::int64_t max_rows = 256;

  /// `planned` steps of the recipe decide how far apart rows lie.
  explicit Trajectory(std::int64_t planned);
  /// Takes the summary after `step` if this is a step to be recorded.
  void record(std::int64_t step, std::span<const double> summary);
  /// Forgets the rows after `step`.
  void truncate(std::int64_t step);
  std::size_t size() const { return steps_.size(); }
  std::int64_t last_step() const { return steps_.empty() ? 0 : steps_.back(); }
  /// `summary` says what a row is. Costs some milliseconds.
  std::shared_ptr<const TrajectoryView> view(const std::string& summary) const;

 private:
  std::int64_t interval_;
  std::vector<std::int64_t> steps_;
  std::vector<double> rows_;  // [steps, d]
};

}  // namespace afterglow
