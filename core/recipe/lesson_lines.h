// The content of single lines of a lesson. Every reader throws Error(bad_input), which begins with the line's place and
// says what to write instead.
#pragma once
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "core/recipe/command.h"
#include "core/recipe/lesson.h"
#include "core/recipe/lesson_condition.h"

namespace afterglow {

/// "seed = 7" of a `set` line; the value is JSON or a bare word.
struct LessonAssignment {
  std::string name, value;
};
std::vector<LessonAssignment> read_assignments(const LessonLine& line);

/// "200 steps" or "to 600".
struct LessonStretch {
  bool is_to = false;
  std::int64_t steps = 0;
};
LessonStretch read_stretch(const LessonLine& line);

/// `NAME JSON` of a `command` line.
Command read_command(const LessonLine& line);

/// Names of `highlight` and `controls`, separated by commas or spaces.
std::vector<std::string> read_names(const LessonLine& line);

/// "inside 3": a panel, or one of its figures alone.
struct LessonFocus {
  std::string panel;
  int figure = 0;  ///< counted from 1; 0: as many as fit
};
LessonFocus read_focus(const LessonLine& line);

/// "Question? | a | b"; formulas are enclosed in `$`, also in the sentence of a goal.
struct LessonQuestion {
  std::string question;
  std::vector<std::string> choices;  ///< two or three
};
LessonQuestion read_question(const LessonLine& line);
/// Counted from 1.
int read_answer(const LessonLine& line);

/// "loss < 0.5 | The loss has fallen below one half".
struct LessonGoal {
  Condition condition;
  std::string sentence;
};
LessonGoal read_goal(const LessonLine& line);
Condition read_expectation(const LessonLine& line);

/// "probe.accuracy | right answers": the number that the step's text speaks of, shown large while presenting.
struct LessonShown {
  std::string name, caption;
};
LessonShown read_shown(const LessonLine& line);

/// "{power=2 0..8}": a number that the reader can drag.
struct LessonNumber {
  std::string name;
  double value = 0;
  double low = std::numeric_limits<double>::quiet_NaN(), high = low;  ///< NaN: the range of the setting
};
/// A piece of a `say` line; a formula is markup of core/figure/math.
struct LessonPiece {
  enum class Kind { words, emphasis, formula, number, paragraph_end } kind = Kind::words;
  std::string text;
  LessonNumber number{};
};
std::vector<LessonPiece> read_pieces(const LessonLine& line);
/// All numbers in the line.
std::vector<LessonNumber> numbers_in(const LessonLine& line);

}  // namespace afterglow
