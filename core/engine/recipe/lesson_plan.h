// What the lines of a lesson do, as commands: the one meaning that the window, `check`, `grade` and `handout` share. A
// plan is a pure function of the lesson; nothing is trained for it.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/engine/recipe/command.h"
#include "core/engine/recipe/lesson.h"
#include "core/engine/recipe/lesson_lines.h"
#include "core/engine/recipe/recipe.h"

namespace afterglow {

/// One thing to be done, and waited for, before the next.
struct LessonDeed {
  enum class Kind {
    send,   ///< a command, to the engine or the window as the table says
    reach,  ///< training has come to `step` and rests
    ask,    ///< the question of the step; the window waits for an answer
    expect  ///< a condition that `check` holds against the moment
  } kind = Kind::send;
  Command command{};
  std::int64_t step = 0;
  const LessonLine* line = nullptr;  ///< that it comes from; null: it makes the step's start. Points into the lesson
};

struct LessonStepPlan {
  std::vector<LessonDeed> deeds;
  std::size_t start = 0;  ///< the first deed that is not of the step's start: `@start` is the moment before it
  std::int64_t first_step = 0, last_step = 0;  ///< of training, at its start and end
  std::optional<LessonQuestion> question{};
  int answer = 0;                   ///< the right choice of the question, counted from 1; 0: the lesson does not say
  std::vector<LessonGoal> goals{};  ///< in the order of their lines
};

/// Plans for every step. The lesson must outlive them. Throws Error(bad_input) with the place of a line that cannot be
/// done: an unknown preset or field, a run beyond the last step, a command that no lesson can repeat exactly.
std::vector<LessonStepPlan> plan_lesson(const Lesson& lesson);

/// The command that a number in the text sends when it is dragged: `set`, `select` or `override`.
Command command_of(const std::string& name, double value);

}  // namespace afterglow
