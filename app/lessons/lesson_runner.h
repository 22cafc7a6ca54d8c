// Runs a lesson without a window, and compares its expectations with the results. `check`, `grade` and `handout` use
// it.
#pragma once
#include <functional>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "core/engine/observation/run_numbers.h"
#include "core/engine/session/mailbox.h"
#include "core/engine/session/session_worker.h"
#include "core/recipe/lesson.h"
#include "core/recipe/lesson_condition.h"
#include "core/recipe/lesson_plan.h"
#include "views/figures/selection.h"
#include "views/figures/training/curve_store.h"
#include "views/plots/plot_numbers.h"

namespace afterglow {

/// One `expect` line and its result.
struct ExpectationResult {
  const LessonLine* line = nullptr;
  Verdict verdict;
};

struct LessonStepResult {
  const LessonStep* step = nullptr;
  std::vector<ExpectationResult> expectations{};
  double seconds = 0;
  std::int64_t resident_bytes = 0;  ///< memory of the program when the step ended
  std::string checksum{};           ///< checksum of the weights then; empty before a model was opened
  std::int64_t at = 0;              ///< training step
  LargeNumber shown{};              ///< of its `show` line, at its end
  bool is_ok() const;
};

class LessonRunner {
 public:
  /// Calls `poll`, which may throw, between training steps.
  LessonRunner(
      Lesson lesson, const SessionOptions& options, std::function<void()> poll = [] {});

  const Lesson& lesson() const { return lesson_; }
  std::size_t steps() const { return plans_.size(); }
  /// Runs a step from its own start, independent of earlier steps. Throws Error with the place of the line that failed.
  LessonStepResult run_step(std::size_t step);
  /// Goes back to a training step; the next `run_step` does not depend on it.
  void go_to(std::int64_t step);
  /// The present moment, with these analyses.
  Observation observe(AnalysisSet analyses);
  const Selection& selection() const { return selection_; }
  const LessonStepPlan& plan(std::size_t step) const { return plans_[step]; }
  /// Panels that the step enlarges or highlights at its end; else empty.
  std::vector<LessonFocus> panels_of(std::size_t step) const;
  /// Loads another run, to compare it with the conditions of the lesson.
  void open(const Recipe& recipe);
  Verdict judge_now(const Condition& condition);
  /// All named numbers now, after all analyses except the race.
  std::vector<NamedNumber> numbers();

 private:
  void send(const Command& command);
  void wait_for(std::int64_t step);
  void keep_moment(const std::string& at);
  Quantity number_now(const std::string& name);

  Lesson lesson_;
  std::vector<LessonStepPlan> plans_;
  std::function<void()> poll_;
  Mailbox mailbox_;
  SessionWorker worker_;
  Selection selection_;
  CurveStore curves_;
  std::map<std::string, std::map<std::string, Quantity>> moments_;  ///< by ConditionSide::at, then by name
};

/// `select`, with and without a window: changes the named fields of the selection. Returns the resulting commands for
/// the engine. Throws Error(bad_input) for an unknown field or an invalid value, and then changes nothing.
std::vector<Command> change_selection(Selection& selection, const nlohmann::json& value);

/// Throws Error(bad_input) with the place of the first line that names a missing panel, or a workspace that `pages`
/// lacks (empty: this build does not know them).
void require_known_panels(const Lesson& lesson, const std::vector<std::string>& pages);

}  // namespace afterglow
