// "Stop when": training pauses by itself at the first step at which a condition over the named numbers of a run
// (run_numbers.h) begins to hold.
#pragma once
#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "core/engine/observation/run_numbers.h"
#include "core/engine/recipe/recipe.h"

namespace afterglow {

/// What the command `stop_when` chooses.
struct StopConfig {
  std::string condition;   ///< "accuracy > 0.9 and loss < 0.5"; empty: training goes on
  std::int64_t every = 1;  ///< steps from one look to the next
};
/// Throws Error(bad_input) for a condition that cannot be read.
StopConfig parse_stop(const nlohmann::json& value);
nlohmann::json to_json(const StopConfig& config);

class StopCondition {
 public:
  /// Makes these analyses for the present moment and says what is seen.
  using MeasureFunction = std::function<Observation(AnalysisSet)>;

  StopCondition() = default;
  /// Whether there is a condition to judge.
  bool is_given() const { return !config_.condition.empty(); }
  /// Throws Error(bad_input) for a name that stands for no number of the run.
  StopCondition(const StopConfig& config, const MeasureFunction& measure);

  /// After a step: why training shall stop, where the condition holds and did not at the last look.
  std::optional<std::string> reached(std::int64_t step, const MeasureFunction& measure);

 private:
  Verdict judge_now(const Observation& now) const;

  StopConfig config_;
  Condition condition_;
  AnalysisSet analyses_ = 0;
  std::vector<NamedNumber> start_;  // when the condition was given
  bool did_hold_ = false;
};

}  // namespace afterglow
