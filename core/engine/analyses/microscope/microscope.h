// The divergence microscope: two trainings in lockstep from one state that differ in one thing, compared after each
// step. Equal trainings have distance zero, exactly.
#pragma once
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "core/engine/analyses/microscope/microscope_view.h"
#include "core/engine/analyses/requested_study.h"

namespace afterglow {

/// Settings of the command `microscope`.
struct MicroscopeConfig {
  /// "same": nothing; "bit" or "bit NAME[INDEX]": the lowest bit of a weight; "token" or "token AT=TO": a token of the
  /// next batch's first sequence; "device=cpu", "precision=bf16"; else a field of the recipe, "learning_rate=0.002",
  /// "layers.0.gka.r=5".
  std::string change = "bit";
  std::int64_t from = -1;   ///< the last step without a difference; -1: the present one
  std::int64_t steps = 60;  ///< number of steps that are compared
  double ulps = 16;         ///< threshold of the first difference, in float32 units in the last place
  bool operator==(const MicroscopeConfig&) const = default;
  /// The step that the run must have reached.
  std::int64_t needed_step() const { return from > 0 ? from : 0; }
};
/// Absent fields keep their value. Throws Error(bad_input).
MicroscopeConfig parse_microscope(const nlohmann::json& value, const MicroscopeConfig& before);
nlohmann::json to_json(const MicroscopeConfig& config);

class Microscope : public Study<MicroscopeConfig, MicroscopeView> {
 public:
  /// `run` must have a state at or before `from`. Throws Error(bad_input) for an impossible change.
  Microscope(const TrainingRun& run, MicroscopeConfig config);
  ~Microscope();

  /// Whether `recipe` describes the training that is compared.
  bool is_of(const Recipe& recipe) const;
  /// A step towards `from`, or one of both and their comparison; false if all are compared.
  bool advance(Backend& backend);
  bool is_complete() const { return view_->is_complete; }
  double share_done() const { return static_cast<double>(view_->step.size()) / static_cast<double>(config_.steps + 1); }
  const TrainingRun* first() const { return first_.get(); }
  const TrainingRun* second() const { return second_.get(); }

 private:
  void part();
  void compare();
  void compare_passes();

  Snapshot start_;                           // at or before the first step
  Recipe changed_;                           // of the second training
  std::unique_ptr<Backend> second_backend_;  // of the second training if device or precision differ
  std::unique_ptr<TrainingRun> first_, second_;
};

}  // namespace afterglow
