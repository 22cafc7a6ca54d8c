// The divergence microscope: two trainings in lockstep from one state that differ in one thing, compared after each
// step. The same against the same stays at zero, exactly.
#pragma once
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "core/engine/observation/microscope_view.h"
#include "core/engine/training/training_run.h"

namespace afterglow {

/// What the command `microscope` chooses.
struct MicroscopeConfig {
  /// "same": nothing; "bit" or "bit NAME[INDEX]": the lowest bit of a weight; "token" or "token AT=TO": a token of the
  /// next batch's first sequence; "device=cpu", "precision=bf16"; else a field of the recipe, "learning_rate=0.002",
  /// "layers.0.gka.r=5".
  std::string change = "bit";
  std::int64_t from = -1;   ///< the step before which nothing differs; -1: the present one
  std::int64_t steps = 60;  ///< how many are compared
  double ulps = 16;         ///< float32 units in the last place beyond which the first difference is told
  bool operator==(const MicroscopeConfig&) const = default;
  /// That the run must have been trained to.
  std::int64_t needed_step() const { return from > 0 ? from : 0; }
};
/// What the value names in place of what it was before. Throws Error(bad_input).
MicroscopeConfig parse_microscope(const nlohmann::json& value, const MicroscopeConfig& before);
nlohmann::json to_json(const MicroscopeConfig& config);

class Microscope {
 public:
  /// Of a run that has a state at or before `from`. Throws Error(bad_input) for a change that cannot be made.
  Microscope(const TrainingRun& run, MicroscopeConfig config);
  Microscope(const Microscope&) = delete;
  Microscope& operator=(const Microscope&) = delete;
  ~Microscope();

  const MicroscopeConfig& config() const { return config_; }
  /// Whether the recipe makes the training that is compared.
  bool is_of(const Recipe& recipe) const;
  /// A step on the way to `from`, or one of both and their comparison; false when all are compared.
  bool advance(Backend& backend);
  bool is_complete() const { return view_->is_complete; }
  std::shared_ptr<const MicroscopeView> view() const { return view_; }
  const TrainingRun* first() const { return first_.get(); }
  const TrainingRun* second() const { return second_.get(); }

 private:
  void part();
  void compare();
  void compare_passes();

  MicroscopeConfig config_;
  Snapshot start_;                           // at or before the first step
  Recipe changed_;                           // the second training's
  std::unique_ptr<Backend> second_backend_;  // of the second one, where it computes elsewhere or otherwise
  std::unique_ptr<TrainingRun> first_, second_;
  std::shared_ptr<const MicroscopeView> view_;
};

}  // namespace afterglow
