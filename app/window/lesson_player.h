// Makes the lesson of the page go on: does what its plan says, in the window's own commands, and ticks goals.
#pragma once
#include <functional>
#include <string>

#include "core/engine/recipe/command.h"
#include "views/page_state.h"

namespace afterglow {

/// Opens a lesson by name or path at its first step. Throws Error(bad_input), and the page stays as it is.
void open_lesson_on(PageState& page, const std::string& name_or_path);
/// The step from its start, exactly; the first or last one beyond the ends.
void begin_lesson_step(PageState& page, std::int64_t step);
/// Takes a choice of the question, counted from 1; false where none is asked.
bool answer_lesson(PageState& page, int choice);

/// What the open lesson needs of the window in a frame.
struct LessonSurroundings {
  const Observation& now;
  std::function<void(const Command&)> give;  ///< at once, as a key would
  std::function<std::uint64_t()> sent;       ///< how many commands have gone to the engine
  std::uint64_t taken = 0;                   ///< of how many of them `now` shows what they did
  double time = 0;                           ///< seconds since the window opened, as all times here
  double last_input = -1;                    ///< when a key or the mouse was used last; -1: not yet
};
/// Does what is due, and ticks the goals that are reached.
void follow_lesson(PageState& page, const LessonSurroundings& around);

/// When a locked lesson goes back to its first step, as an exhibition needs it: a minute after the last visitor's last
/// input; infinity while nothing has been touched since it began.
double lesson_returns_at(const PageState& page, double last_input);

/// What its goals have to have measured.
AnalysisSet analyses_of_lesson(const PageState& page);

}  // namespace afterglow
