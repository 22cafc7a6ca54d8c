// Bisect over frozen blocks: when does a condition begin to hold, and which part's learning does that wait for? The
// training is repeated with one part frozen after the other.
#pragma once
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "core/engine/observation/bisect_view.h"
#include "core/engine/training/training_run.h"

namespace afterglow {

class AnalysedRun;
class StopCondition;

/// What the command `bisect` chooses.
struct BisectConfig {
  std::string condition = "held_out_accuracy > 0.5";  ///< as `stop_when` takes it
  std::int64_t until = 0;                             ///< steps that each repetition has at most; 0: the recipe's
  /// That the run must have been trained to.
  std::int64_t needed_step() const { return 0; }
};
/// What the value names in place of what it was before. Throws Error(bad_input).
BisectConfig parse_bisect(const nlohmann::json& value, const BisectConfig& before);
nlohmann::json to_json(const BisectConfig& config);

class Bisect {
 public:
  /// Of a run from its oldest state on. Throws Error(bad_input) for a last step that is not after that one.
  Bisect(const TrainingRun& run, BisectConfig config);
  Bisect(const Bisect&) = delete;
  Bisect& operator=(const Bisect&) = delete;
  ~Bisect();

  const BisectConfig& config() const { return config_; }
  /// Whether the recipe makes the training that is repeated here.
  bool is_of(const Recipe& recipe) const;
  /// One training step of the present repetition; false when all are there. Throws Error(bad_input) for a condition
  /// over numbers that the run has not.
  bool advance(Backend& backend);
  bool is_complete() const { return view_->is_complete(); }
  std::shared_ptr<const BisectView> view() const { return view_; }

 private:
  void begin_next(Backend& backend);
  void take_result(std::int64_t step);

  BisectConfig config_;
  Snapshot start_;
  std::vector<std::pair<std::string, std::string>> frozen_;  // label and kind of what each repetition freezes
  std::unique_ptr<AnalysedRun> now_;
  std::unique_ptr<StopCondition> condition_;
  std::shared_ptr<const BisectView> view_;
};

}  // namespace afterglow
