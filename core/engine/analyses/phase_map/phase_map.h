// A map over two fields of a recipe from whole trainings, one step at a time, so that it fills while other work goes
// on. Runs, numbers and bits are those of a sweep.
#pragma once
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "core/engine/analyses/phase_map/phase_map_view.h"
#include "core/engine/analyses/requested_study.h"
#include "core/engine/studies/recipe_run.h"

namespace afterglow {

/// Settings of the command `phase_map`.
struct PhaseMapConfig {
  std::string x, y;  ///< axes as `parse_axis` reads them; empty: the learning rate, and the layers' strength or decay
  std::int64_t steps = 200;  ///< of each run
  std::string result;        ///< the metric shown as colour; empty: the accuracy
  bool operator==(const PhaseMapConfig&) const = default;
};
/// Absent fields keep their value. Throws Error(bad_input).
PhaseMapConfig parse_phase_map(const nlohmann::json& value, const PhaseMapConfig& before);
nlohmann::json to_json(const PhaseMapConfig& config);

/// The grid point to train next: on the coarsest grid with a missing point, where its neighbours differ most, so that
/// boundaries come first; the number of points if none is missing.
std::size_t next_place(const SweepView& sweep, std::size_t metric);

class PhaseMap : public Study<PhaseMapConfig, PhaseMapView> {
 public:
  /// Starts from the recipe at step 0 without later changes. Throws Error for invalid axes.
  PhaseMap(const Recipe& recipe, PhaseMapConfig config);

  /// Whether another configuration needs the same runs and differs only in what is shown.
  bool has_runs_of(const PhaseMapConfig& config) const;
  void show(const std::string& result);
  /// One training step of the present run, or its result; false if all are finished.
  bool advance(Backend& backend);
  bool is_complete() const { return !now_ && next_ == runs_.size(); }
  double share_done() const {
    return static_cast<double>(view_->sweep.results.size()) / static_cast<double>(runs_.size());
  }
  /// The present run starts again later, because its back end is being destroyed.
  void drop_present() { now_.reset(); }
  /// The recipe of the run at this grid point, to be opened at its end. Throws Error(bad_input) if it is not finished.
  Recipe finished_run(std::int64_t place) const;
  /// Whether the recipe is that of a point on the map.
  bool holds(const Recipe& recipe) const;

 private:
  void take_result(PhaseMapView& view);
  Inquiry inquiry_;
  std::vector<PlannedRun> runs_;
  std::size_t next_ = 0;
  std::unique_ptr<RecipeRun> now_;
};

}  // namespace afterglow
