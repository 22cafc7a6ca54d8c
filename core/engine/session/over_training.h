// One number of a panel followed over all kept steps: each kept state is looked at as the present one is, a piece at a
// time, until the number is there.
#pragma once
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/engine/observation/analyses.h"
#include "core/engine/observation/over_training_view.h"
#include "core/engine/training/training_run.h"

namespace afterglow {

class AnalysedRun;

/// What the command `over_training` chooses.
struct OverTrainingConfig {
  std::string number = "spectral_radius";  ///< a name of run_numbers.h
  /// That the run must have been trained to.
  std::int64_t needed_step() const { return 0; }
};
/// What the value names in place of what it was before. Throws Error(bad_input).
OverTrainingConfig parse_over_training(const nlohmann::json& value, const OverTrainingConfig& before);
nlohmann::json to_json(const OverTrainingConfig& config);

class OverTraining {
 public:
  /// `run` must outlive it. Begins with the last kept state; throws Error(bad_input) for a name that stands for no
  /// number of it.
  OverTraining(const TrainingRun& run, OverTrainingConfig config);
  OverTraining(const OverTraining&) = delete;
  OverTraining& operator=(const OverTraining&) = delete;
  ~OverTraining();

  const OverTrainingConfig& config() const { return config_; }
  /// Whether what has been measured is this recipe's past; of a changed one what is still the same stays.
  bool is_of(const Recipe& recipe) const;
  /// A piece of the look at one more kept state, first where the gaps are wide; false when none is left.
  bool advance(Backend& backend);
  bool is_complete() const { return missing(view_->step).empty(); }
  std::shared_ptr<const OverTrainingView> view() const { return view_; }

 private:
  std::vector<std::int64_t> missing(const std::vector<double>& known) const;
  void begin(std::int64_t step, Backend& backend);
  bool measure_next();
  std::optional<double> number() const;
  void take(double value);

  OverTrainingConfig config_;
  AnalysisSet analyses_ = 0;  // that the number needs
  const TrainingRun* run_;
  Recipe measured_;                   // of the states that have been measured
  std::unique_ptr<AnalysedRun> now_;  // at one of them, looked at piece by piece
  std::int64_t measured_step_ = 0;
  std::shared_ptr<const OverTrainingView> view_;
};

}  // namespace afterglow
