// The presenter's view of a lesson: the notes of the step, the next step, the time.
#pragma once
#include <string>
#include <vector>

#include "views/frame/page_state.h"
#include "views/look/look.h"

namespace afterglow {

/// The texts of the window; equal values look equal.
struct LessonNotes {
  std::string place;               ///< "step 2 of 7", or that no lesson is open
  std::string title;               ///< title of the step
  std::vector<std::string> notes;  ///< paragraphs, with formulas between `$`
  std::string answer;              ///< answer to the step's question, "2 · 9 times"; empty: it has no question
  std::string next;                ///< title of the next step; empty: this is the last one
  std::string clock, elapsed;      ///< "14:05", and "12:34" since the lesson began
  bool operator==(const LessonNotes&) const = default;
};

/// `now` in seconds since the window opened, `clock` is the local time.
LessonNotes lesson_notes(const PageState& state, double now, const std::string& clock);

/// Fills the window, in the largest text that fits.
void draw_lesson_notes(const Look& look, Canvas& canvas, const LessonNotes& notes, const Rect& area);

}  // namespace afterglow
