// Plays the lesson of the page: gives the commands of its plan, and ticks reached goals.
#pragma once
#include <functional>
#include <string>

#include "core/recipe/command.h"
#include "views/frame/page_state.h"

namespace afterglow {

/// Opens a lesson by name or path at its first step. Throws Error(bad_input), and then the page stays unchanged.
void open_lesson_on(PageState& page, const std::string& name_or_path);
/// Starts the step again from exactly the same state; numbers outside of the lesson mean its first or last step.
void begin_lesson_step(PageState& page, std::int64_t step);
/// Takes a choice of the question, counted from 1; false if no question is open.
bool answer_lesson(PageState& page, int choice);

/// The state of the window that the open lesson reads in a frame.
struct LessonSurroundings {
  const Observation& now;
  std::function<void(const Command&)> give;  ///< gives a command at once, as a key does
  std::function<std::uint64_t()> sent;       ///< number of commands sent to the engine
  std::uint64_t taken = 0;                   ///< number of commands whose effects `now` shows
  double time = 0;                           ///< seconds since the window opened, as all times here
  double last_input = -1;                    ///< time of the last input of key or mouse; -1: no input so far
};
/// Gives the commands that are due, and ticks the goals that are reached.
void follow_lesson(PageState& page, const LessonSurroundings& around);

/// When a locked lesson returns to its first step, for an exhibition: a minute after the visitor's last input; infinity
/// without input since it began.
double lesson_returns_at(const PageState& page, double last_input);

/// The analyses that its goals, its large number and the expectation that it waits for need.
AnalysisSet analyses_of_lesson(const PageState& page);

}  // namespace afterglow
