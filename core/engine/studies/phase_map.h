// A map over two fields of a recipe, made of whole trainings, one step at a time, so that it fills while something else
// goes on. The same runs, numbers and bits as a sweep's.
#pragma once
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "core/engine/observation/phase_map_view.h"
#include "core/engine/studies/recipe_run.h"

namespace afterglow {

/// What the command `phase_map` chooses.
struct PhaseMapConfig {
  std::string x, y;  ///< axes as `parse_axis` reads them; empty: the learning rate, and the layers' strength or decay
  std::int64_t steps = 200;  ///< of each run
  std::string result;        ///< the number shown as colour; empty: the accuracy
  bool operator==(const PhaseMapConfig&) const = default;
};
/// What the value names in place of what it was before. Throws Error(bad_input).
PhaseMapConfig parse_phase_map(const nlohmann::json& value, const PhaseMapConfig& before);
nlohmann::json to_json(const PhaseMapConfig& config);

/// The place that is trained next: on the coarsest grid that still lacks one, where its neighbours differ most, so that
/// boundaries come first; the number of places where none is missing.
std::size_t next_place(const SweepView& sweep, std::size_t metric);

class PhaseMap {
 public:
  /// Of the recipe at its step 0 with its settings, whatever was changed later. Throws Error for axes that cannot be.
  PhaseMap(const Recipe& recipe, PhaseMapConfig config);

  const PhaseMapConfig& config() const { return config_; }
  /// Whether another configuration asks for the same runs; it then only shows them otherwise.
  bool has_runs_of(const PhaseMapConfig& config) const;
  void show(const std::string& result);
  /// One training step of the present run, or its result; false when all are there.
  bool advance(Backend& backend);
  bool is_complete() const { return !now_ && next_ == runs_.size(); }
  std::shared_ptr<const PhaseMapView> view() const { return view_; }
  /// The run on its way begins anew: its back end goes away.
  void drop_present() { now_.reset(); }
  /// The recipe of the run at this place, to be opened at its end. Throws Error(bad_input) for one that is not
  /// finished.
  Recipe finished_run(std::int64_t place) const;
  /// Whether the recipe is that of a place on the map.
  bool holds(const Recipe& recipe) const;

 private:
  void take_result(PhaseMapView& view);
  PhaseMapConfig config_;
  Inquiry inquiry_;
  std::vector<PlannedRun> runs_;
  std::size_t next_ = 0;
  std::unique_ptr<RecipeRun> now_;
  std::shared_ptr<const PhaseMapView> view_;
};

}  // namespace afterglow
