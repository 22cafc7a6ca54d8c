// "Stop when": training pauses at the first step at which a condition over the run's named numbers (run_numbers.h)
// begins to hold.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "core/engine/observation/run_numbers.h"
#include "core/io/field_table.h"
#include "core/recipe/recipe.h"

namespace afterglow {

/// Settings of the command `stop_when`.
struct StopConfig {
  std::string condition;   ///< "accuracy > 0.9 and loss < 0.5"; empty: none
  std::int64_t every = 1;  ///< steps between two evaluations of the condition
  static constexpr const char* command = "stop_when";
  static constexpr ConfigField<StopConfig> fields[] = {{"condition", &StopConfig::condition},
                                                       {"every", &StopConfig::every, 1, max_steps}};
};

class StopCondition {
 public:
  /// Runs these analyses and returns the observation.
  using MeasureFunction = std::function<Observation(AnalysisSet)>;

  StopCondition() = default;
  /// Whether there is a condition.
  bool is_given() const { return !config_.condition.empty(); }
  /// Throws Error(bad_input) for a condition that does not parse, and for a name that is no number of the run.
  StopCondition(const StopConfig& config, const MeasureFunction& measure);

  /// After a step: why training must stop, if the condition holds now and did not at the last evaluation.
  std::optional<std::string> reached(std::int64_t step, const MeasureFunction& measure);

 private:
  Verdict judge_now(const Observation& now) const;

  StopConfig config_;
  Condition condition_;
  AnalysisSet analyses_ = 0;
  std::vector<NamedNumber> start_;  // when the condition was set
  bool did_hold_ = false;
};

}  // namespace afterglow
