// `afterglow grade`: rebuilds the run of a pupil's recipe and reports which goals of a lesson it reaches.
#include <algorithm>

#include "app/cli/interruption.h"
#include "app/cli/start.h"
#include "app/lessons/lesson_options.h"
#include "app/lessons/lesson_runner.h"
#include "core/io/json.h"
#include "core/recipe/lesson_lines.h"

namespace afterglow {
namespace {

/// The pupil's changes: settings during the training, and the settings of the inspected sequence.
std::size_t changes_in(const Recipe& recipe) {
  const auto settings =
      std::ranges::count_if(recipe.commands, [](const TimedCommand& timed) { return changes_training(timed.command); });
  const json interventions =
      recipe.inspected.is_object() ? recipe.inspected.value("interventions", json::array()) : json::array();
  return static_cast<std::size_t>(settings) + interventions.size();
}

bool compares_moments(const LessonStep& step) {
  return std::ranges::any_of(step.lines, [](const LessonLine& line) {
    if (line.word != LessonWord::goal) return false;
    const Condition condition = read_goal(line).condition;
    return std::ranges::any_of(condition.comparisons, [](const Comparison& comparison) {
      return !comparison.left.at.empty() || !comparison.right.at.empty();
    });
  });
}

}  // namespace

json grade(const GradeOptions& options, const CommonOptions& common, Output& output) {
  const Interruption noticed;
  Recipe recipe = open_saved_run(options.recipe).recipe;
  if (recipe.shown_step < 0) recipe.shown_step = recipe.training.steps;  // one that names no step is judged at its end
  LessonRunner runner(open_lesson(options.lesson), session_options(common),
                      [] { Interruption::check("before all goals were checked"); });
  const std::size_t changes = changes_in(recipe);
  json goals = json::array();
  std::size_t reached = 0;
  for (std::size_t i = 0; i < runner.steps(); ++i) {
    const LessonStep& step = runner.lesson().steps[i];
    if (compares_moments(step)) runner.run_step(i);
    runner.open(recipe);
    for (const LessonLine& line : step.lines) {
      if (line.word != LessonWord::goal) continue;
      const LessonGoal goal = read_goal(line);
      const Verdict verdict = runner.judge_now(goal.condition);
      reached += verdict.holds ? 1 : 0;
      goals.push_back({{"step", i + 1}, {"goal", goal.sentence}, {"reached", verdict.holds}});
      if (!verdict.holds) goals.back()["why"] = verdict.why;
      output.line(verdict.holds ? "  reached  " : "  missed   ", goal.sentence,
                  verdict.holds ? "" : " (" + verdict.why + ")");
    }
  }
  if (goals.empty()) throw BadInput(options.lesson, ": this lesson has no goals");
  const std::string text = std::to_string(reached) + " of " + std::to_string(goals.size()) + " goals, with " +
                           std::to_string(changes) + (changes == 1 ? " change" : " changes");
  output.line(text);
  if (reached < goals.size()) throw Error(ExitCode::check_failed, text);
  return {{"lesson", options.lesson}, {"goals", goals}, {"reached", reached}, {"changes", changes}};
}

}  // namespace afterglow
