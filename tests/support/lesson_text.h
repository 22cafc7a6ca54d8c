// A lesson as the text from which it can be read again.
#pragma once
#include <string>

#include "core/recipe/lesson.h"

namespace afterglow {

/// Paragraphs after the first are indented, so that none is read as another line.
inline std::string text_of(const LessonLine& line) {
  std::string text = std::string(name_of(line.word)) + ": ";
  for (const char c : line.text) text += c == '\n' ? std::string("\n\n  ") : std::string(1, c);
  return text + "\n";
}

inline std::string text_of(const Lesson& lesson) {
  std::string text = "# " + lesson.title + "\n";
  for (const LessonLine& line : lesson.head) text += text_of(line);
  for (const LessonStep& step : lesson.steps) {
    text += "\n## " + step.title + "\n";
    for (const LessonLine& line : step.lines) text += text_of(line);
  }
  return text;
}

}  // namespace afterglow
