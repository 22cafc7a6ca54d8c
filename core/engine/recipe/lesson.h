// A lesson: steps of text, settings and commands. Plain text, so that it can be written by hand and translated in a
// file beside (assets/lessons/README.md describes it). What a line says in detail, lesson_lines.h reads.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace afterglow {

/// What a line of a lesson begins with.
enum class LessonWord {
  about,
  minutes,
  controls,
  say,
  set,
  run,
  command,
  focus,
  highlight,
  ask,
  answer,
  expect,
  goal,
  notes
};

/// "run: 200 steps", with the lines that continue it.
struct LessonLine {
  LessonWord word = LessonWord::say;
  std::string text;   ///< one space between words; a paragraph's end is one line end
  std::string place;  ///< "forgetting.md:12", for messages
};

struct LessonStep {
  std::string title;
  std::vector<LessonLine> lines;  ///< in the order in which they act
  std::string place;
};

struct Lesson {
  std::string name;  ///< of its file
  std::string title;
  std::vector<LessonLine> head;  ///< about, minutes, controls
  std::vector<LessonStep> steps;
};

/// "say", "set", ..; and back.
std::string_view name_of(LessonWord word);

/// Reads a lesson and every line of it; what is wrong is an Error(bad_input) that names file and line, and says what to
/// write. `name` is that of its file and begins messages.
Lesson parse_lesson(std::string_view text, const std::string& name);
/// The text that `parse_lesson` reads as this lesson.
std::string text_of(const Lesson& lesson);

/// The first line of this kind in a list; nullptr without one.
const LessonLine* find_line(std::span<const LessonLine> lines, LessonWord word);

/// A lesson shipped with the program.
struct ShippedLesson {
  std::string name, text;
};
/// In the order of their names.
const std::vector<ShippedLesson>& shipped_lessons();
/// A shipped lesson by its name, else the file of this path. Throws Error(bad_input), which lists the names.
Lesson open_lesson(const std::string& name_or_path);

}  // namespace afterglow
