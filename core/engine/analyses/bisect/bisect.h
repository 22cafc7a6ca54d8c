// Bisect over frozen parts: at which step does a condition begin to hold, and which part must learn first? Repeats the
// training with one part frozen at a time.
#pragma once
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "core/engine/analyses/bisect/bisect_view.h"
#include "core/engine/analyses/requested_study.h"

namespace afterglow {

class AnalysedRun;
class StopCondition;

/// Settings of the command `bisect`.
struct BisectConfig {
  std::string condition = "held_out_accuracy > 0.5";  ///< as in `stop_when`
  std::int64_t until = 0;                             ///< last step of each repetition; 0: the recipe's
  /// The step that the run must have reached.
  std::int64_t needed_step() const { return 0; }
};
/// Fields that are absent keep the value of the second argument. Throws Error(bad_input).
BisectConfig parse_bisect(const nlohmann::json& value, const BisectConfig& before);
nlohmann::json to_json(const BisectConfig& config);

class Bisect : public Study<BisectConfig, BisectView> {
 public:
  /// Repeats the run from its oldest saved state. Throws Error(bad_input) if the last step is not after that state.
  Bisect(const TrainingRun& run, BisectConfig config);
  ~Bisect();

  /// Whether `recipe` describes the training that is repeated here.
  bool is_of(const Recipe& recipe) const;
  /// Trains one step of the present repetition; false if all are finished. Throws Error(bad_input) if the condition
  /// names a number that the run does not have.
  bool advance(Backend& backend);
  bool is_complete() const { return view_->is_complete(); }
  double share_done() const;

 private:
  void begin_next(Backend& backend);
  void take_result(std::int64_t step);

  Snapshot start_;
  std::vector<std::pair<std::string, std::string>> frozen_;  // label and kind of the part that each repetition freezes
  std::unique_ptr<AnalysedRun> now_;
  std::unique_ptr<StopCondition> condition_;
};

}  // namespace afterglow
