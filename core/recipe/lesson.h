// A lesson: steps of text, settings and commands. Plain text, so that it can be written by hand and translated in a
// second file (assets/lessons/README.md describes the format). lesson_lines.h reads the content of single lines.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace afterglow {

/// The word at the beginning of a line.
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
  show,
  notes
};

/// "run: 200 steps", with the lines that continue it.
struct LessonLine {
  LessonWord word = LessonWord::say;
  std::string text;   ///< one space between words; paragraphs end with a line end
  std::string place;  ///< "forgetting.md:12", for messages
};

struct LessonStep {
  std::string title;
  std::vector<LessonLine> lines;  ///< in the order of execution
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

/// Reads a lesson and every line of it. Throws Error(bad_input) that names file and line and says what to write. `name`
/// is the file's and begins messages.
Lesson parse_lesson(std::string_view text, const std::string& name);

/// The first line of this kind in a list; nullptr without one.
const LessonLine* find_line(std::span<const LessonLine> lines, LessonWord word);

/// A lesson shipped with the program.
struct ShippedLesson {
  std::string name, text;
};
/// Sorted by name.
const std::vector<ShippedLesson>& shipped_lessons();
/// A shipped lesson by its name, else the file of this path. Throws Error(bad_input), which lists the names.
Lesson open_lesson(const std::string& name_or_path);

}  // namespace afterglow
