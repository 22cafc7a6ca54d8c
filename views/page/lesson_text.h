// The text of a lesson: words, formulas and numbers that can be dragged, broken into lines.
#pragma once
#include <map>
#include <vector>

#include "core/figure/math/text_flow.h"
#include "core/recipe/lesson_lines.h"
#include "views/frame/frame.h"

namespace afterglow {

/// A paragraph, and the numbers among its tokens.
struct LessonParagraph {
  std::vector<FlowToken> tokens;
  std::map<std::size_t, LessonNumber> numbers;  ///< by the index of the token
};

/// Paragraphs of a `say` line; numbers show their present value.
std::vector<LessonParagraph> lesson_paragraphs(const Frame& frame, const LessonLine& line);
LessonParagraph lesson_words(std::string_view text, FontFace face);
/// Words with formulas between `$`: a question, a choice, the sentence of a goal.
LessonParagraph lesson_phrase(std::string_view text, FontFace face);

/// Draws a paragraph from the top of `area` in this text size (pixels) and returns its height; with `is_drawn` false it
/// only measures.
double draw_lesson_text(Frame& frame, Canvas& canvas, const LessonParagraph& paragraph, const Rect& area, double size,
                        Color color, bool is_drawn);

/// The number as a setting: its range, and its value now.
Setting setting_of(const Frame& frame, const LessonNumber& number);

}  // namespace afterglow
