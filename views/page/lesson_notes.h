// What the one who presents a lesson reads beside it: the notes of the step, what comes next, the time.
#pragma once
#include <string>
#include <vector>

#include "views/look.h"
#include "views/page_state.h"

namespace afterglow {

/// As it is written; two that are equal look the same.
struct LessonNotes {
  std::string place;               ///< "step 2 of 7", or that there is no lesson
  std::string title;               ///< of the step
  std::vector<std::string> notes;  ///< paragraphs, with formulas between `$`
  std::string answer;              ///< of the step's question, "2 · 9 times"; empty: it has none
  std::string next;                ///< title of the next step; empty: this is the last one
  std::string clock, elapsed;      ///< "14:05" and, since the lesson began, "12:34"
  bool operator==(const LessonNotes&) const = default;
};

/// `now` in seconds since the window opened, `clock` as the wall shows it.
LessonNotes lesson_notes(const PageState& state, double now, const std::string& clock);

/// Fills the window, in the largest text with which everything has room.
void draw_lesson_notes(const Look& look, Canvas& canvas, const LessonNotes& notes, const Rect& area);

}  // namespace afterglow
