// One number of a panel for all saved states: opens each state and computes the number there, piece by piece.
#pragma once
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/engine/analyses/over_training/over_training_view.h"
#include "core/engine/analyses/requested_study.h"

namespace afterglow {

class AnalysedRun;

/// Settings of the command `over_training`.
struct OverTrainingConfig {
  std::string number = "spectral_radius";  ///< a name of run_numbers.h
  /// The step that the run must have reached.
  std::int64_t needed_step() const { return 0; }
};
/// Fields that are absent keep the value of the second argument. Throws Error(bad_input).
OverTrainingConfig parse_over_training(const nlohmann::json& value, const OverTrainingConfig& before);
nlohmann::json to_json(const OverTrainingConfig& config);

class OverTraining : public Study<OverTrainingConfig, OverTrainingView> {
 public:
  /// `run` must outlive this object. Begins with the last saved state. Throws Error(bad_input) if the run has no such
  /// number.
  OverTraining(const TrainingRun& run, OverTrainingConfig config);
  ~OverTraining();

  /// Whether the measured states belong to this recipe's past; after a change the states before it stay valid.
  bool is_of(const Recipe& recipe) const;
  /// Computes one piece at the next saved state, wide gaps first; false if none is left.
  bool advance(Backend& backend);
  bool is_complete() const { return missing(view_->step).empty(); }
  double share_done() const;

 private:
  std::vector<std::int64_t> missing(const std::vector<double>& known) const;
  void begin(std::int64_t step, Backend& backend);
  bool measure_next();
  std::optional<double> number() const;
  void take(double value);

  AnalysisSet analyses_ = 0;  // that the number needs
  const TrainingRun* run_;
  Recipe measured_;                   // of the measured states
  std::unique_ptr<AnalysedRun> now_;  // at the state that is being measured
  std::int64_t measured_step_ = 0;
};

}  // namespace afterglow
