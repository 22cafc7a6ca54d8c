// Turns the lines of a lesson into commands, for the window, `check`, `grade` and `handout` alike. A plan is a pure
// function of the lesson; nothing is trained for it.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/recipe/command.h"
#include "core/recipe/lesson.h"
#include "core/recipe/lesson_lines.h"
#include "core/recipe/recipe.h"

namespace afterglow {

/// One action, which must be finished before the next.
struct LessonDeed {
  enum class Kind {
    send,   ///< a command, to the engine or the window as the table says
    reach,  ///< waits until training has reached `step` and rests
    ask,    ///< the question of the step; the window waits for an answer
    expect  ///< a condition that `check` evaluates
  } kind = Kind::send;
  Command command{};
  std::int64_t step = 0;
  const LessonLine* line = nullptr;  ///< its line in the lesson; null: it prepares the step's start
};

struct LessonStepPlan {
  std::vector<LessonDeed> deeds;
  std::size_t start = 0;                       ///< the first deed after the step's start, the moment of `@start`
  std::int64_t first_step = 0, last_step = 0;  ///< of training, at its start and end
  std::optional<LessonQuestion> question{};
  int answer = 0;                   ///< the right choice of the question, counted from 1; 0: not given
  std::vector<LessonGoal> goals{};  ///< in the order of their lines
  std::optional<LessonShown> shown{};
  std::size_t shown_from = 0;  ///< the first deed after its line
};

/// Plans every step. The lesson must outlive the plans. Throws Error(bad_input) with the place of an impossible line:
/// an unknown preset or field, a run beyond the last step, a command that a lesson cannot repeat exactly.
std::vector<LessonStepPlan> plan_lesson(const Lesson& lesson);

/// The command that a number in the text sends when the reader drags it: `set`, `select` or `override`.
Command command_of(const std::string& name, double value);

}  // namespace afterglow
