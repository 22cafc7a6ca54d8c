// Evaluates the condition and reports when it begins to hold.
#include "core/engine/session/stop_condition.h"

#include "core/io/error.h"

namespace afterglow {

StopCondition::StopCondition(const StopConfig& config, const MeasureFunction& measure) : config_(config) {
  if (config_.condition.empty()) return;
  condition_ = parse_condition(config_.condition, StopConfig::command);
  for (const Comparison& comparison : condition_.comparisons) {
    for (const ConditionSide* side : {&comparison.left, &comparison.right}) {
      if (!side->at.empty() && side->at != "start")
        throw BadInput(StopConfig::command,
                       ": after @ write `start`, the moment at which the "
                       "condition is given; only lessons have numbered steps");
      // A number of no family exists in every run and needs no analysis.
      if (const NumberFamily* family = family_of(side->name)) analyses_ |= family->analyses;
    }
  }
  const Observation now = measure(analyses_);
  start_ = numbers_of(now);
  const Verdict verdict = judge_now(now);
  if (!verdict.unknown.empty())
    throw BadInput(StopConfig::command, ": this run has no number \"", verdict.unknown.front(),
                   "\"; `afterglow check --names` lists them");
  did_hold_ = verdict.holds;
}

Verdict StopCondition::judge_now(const Observation& now) const {
  const std::vector<NamedNumber> numbers = numbers_of(now);
  return judge(condition_, [&](const std::string& name, const std::string& at) {
    return number_in(at.empty() ? numbers : start_, name);
  });
}

std::optional<std::string> StopCondition::reached(std::int64_t step, const MeasureFunction& measure) {
  if (!is_given() || step % config_.every != 0) return std::nullopt;
  const bool holds = judge_now(measure(analyses_)).holds;
  const bool begins = holds && !did_hold_;
  did_hold_ = holds;
  if (!begins) return std::nullopt;
  return in_words(condition_);
}

}  // namespace afterglow
