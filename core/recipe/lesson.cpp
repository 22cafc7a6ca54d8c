// Splits a lesson into steps and lines.
#include "core/recipe/lesson.h"

#include <algorithm>
#include <array>
#include <filesystem>

#include "core/io/atomic_file.h"
#include "core/io/error.h"
#include "core/io/named.h"
#include "core/io/terminal_text.h"
#include "core/io/wording.h"
#include "core/recipe/lesson_lines.h"

namespace afterglow {
namespace {

constexpr std::size_t max_bytes = std::size_t{1} << 20, max_lesson_steps = 64;

struct WordInfo {
  LessonWord word;
  std::string_view name;
  bool is_of_head;  ///< allowed before the first step only
  void (*check)(const LessonLine&);
};

void check_minutes(const LessonLine& line) {
  const bool is_number = !line.text.empty() && line.text.find_first_not_of("0123456789") == std::string::npos;
  if (!is_number) throw BadInput(line.place, ": minutes is a whole number, such as `minutes: 6`");
}

constexpr std::array words{
    WordInfo{LessonWord::about, "about", true, [](const LessonLine&) {}},
    WordInfo{LessonWord::minutes, "minutes", true, check_minutes},
    WordInfo{LessonWord::controls, "controls", true, [](const LessonLine& line) { read_names(line); }},
    WordInfo{LessonWord::say, "say", false, [](const LessonLine& line) { read_pieces(line); }},
    WordInfo{LessonWord::set, "set", false, [](const LessonLine& line) { read_assignments(line); }},
    WordInfo{LessonWord::run, "run", false, [](const LessonLine& line) { read_stretch(line); }},
    WordInfo{LessonWord::command, "command", false, [](const LessonLine& line) { read_command(line); }},
    WordInfo{LessonWord::focus, "focus", false, [](const LessonLine& line) { read_focus(line); }},
    WordInfo{LessonWord::highlight, "highlight", false, [](const LessonLine& line) { read_names(line); }},
    WordInfo{LessonWord::ask, "ask", false, [](const LessonLine& line) { read_question(line); }},
    WordInfo{LessonWord::answer, "answer", false, [](const LessonLine& line) { read_answer(line); }},
    WordInfo{LessonWord::expect, "expect", false, [](const LessonLine& line) { read_expectation(line); }},
    WordInfo{LessonWord::goal, "goal", false, [](const LessonLine& line) { read_goal(line); }},
    WordInfo{LessonWord::show, "show", false, [](const LessonLine& line) { read_shown(line); }},
    WordInfo{LessonWord::notes, "notes", false, [](const LessonLine&) {}},
};

const WordInfo& info_of(LessonWord word) { return *std::ranges::find(words, word, &WordInfo::word); }

/// Reduces white space to one space between words.
std::string plain(std::string_view text) {
  std::string result;
  for (const char c : trimmed(text)) {
    const bool is_space = c == ' ' || c == '\t' || c == '\r';
    if (!is_space) result += c;
    if (is_space && result.back() != ' ') result += ' ';
  }
  return result;
}

/// "word" of a line "word: text"; empty for other lines.
std::string_view word_at_front(std::string_view line) {
  std::size_t end = 0;
  while (end < line.size() && line[end] >= 'a' && line[end] <= 'z') ++end;
  const bool is_word =
      end > 0 && end < line.size() && line[end] == ':' &&
      (end + 1 == line.size() || line[end + 1] == ' ' || line[end + 1] == '\t' || line[end + 1] == '\r');
  return is_word ? line.substr(0, end) : std::string_view();
}

/// Reads a text line by line.
class LessonReader {
 public:
  explicit LessonReader(const std::string& name) { lesson_.name = name; }

  void take(std::string_view line) {
    place_ = lesson_.name + ":" + std::to_string(++number_);
    const std::string_view text = trimmed(line);
    if (text.starts_with("<!--")) {
      if (!text.ends_with("-->")) refuse("a comment begins and ends on one line, as `<!-- for the author -->`");
    } else if (text.empty()) {
      ends_paragraph_ = true;
    } else if (line.starts_with("##")) {
      begin_step(plain(line.substr(2)));
    } else if (line.starts_with('#')) {
      take_title(plain(line.substr(1)));
    } else if (const std::string_view word = word_at_front(line); !word.empty()) {
      begin_line(word, plain(line.substr(word.size() + 1)));
    } else {
      go_on(plain(text));
    }
  }

  Lesson result() {
    end_line();
    if (lesson_.title.empty())
      refuse_at(lesson_.name + ":1", "a lesson begins with its title, as `# Forgetting is a circle`");
    if (lesson_.steps.empty())
      refuse_at(place_, "a lesson has at least one step, which begins with its title, as `## Two tails`");
    return std::move(lesson_);
  }

 private:
  [[noreturn]] static void refuse_at(const std::string& place, const std::string& what) {
    throw BadInput(place, ": ", what);
  }
  [[noreturn]] void refuse(const std::string& what) const { refuse_at(place_, what); }

  std::vector<LessonLine>& lines() { return lesson_.steps.empty() ? lesson_.head : lesson_.steps.back().lines; }

  void take_title(std::string title) {
    if (!lesson_.title.empty()) refuse("there is a title already; a step begins with two signs: `## " + title + "`");
    if (title.empty()) refuse("the title is missing after the #");
    lesson_.title = std::move(title);
  }

  void begin_step(std::string title) {
    if (lesson_.title.empty()) refuse("the lesson's own title comes first, as `# Forgetting is a circle`");
    if (title.empty() || title.starts_with('#')) refuse("the step's title is missing, as `## Two tails`");
    end_line();
    if (lesson_.steps.size() == max_lesson_steps)
      refuse("a lesson has at most " + std::to_string(max_lesson_steps) + " steps; begin another file");
    lesson_.steps.push_back({std::move(title), {}, place_});
  }

  void begin_line(std::string_view name, std::string text) {
    end_line();
    const auto found = std::ranges::find(words, name, &WordInfo::name);
    if (found == words.end()) {
      std::vector<std::string> known = names_of(words, &WordInfo::name);
      refuse("no line begins with " + in_quotes(std::string(name) + ":") + which_there_are(name, known) +
             ". A line that goes on with the text above is indented");
    }
    if (lesson_.title.empty()) refuse("the lesson's title comes first, as `# Forgetting is a circle`");
    if (found->is_of_head != lesson_.steps.empty())
      refuse(found->is_of_head ? std::string(name) + ": belongs before the first step"
                               : std::string(name) + ": belongs to a step; begin one with `## Title`");
    lines().push_back({found->word, std::move(text), place_});
    is_in_line_ = true;
    ends_paragraph_ = false;
  }

  void go_on(const std::string& text) {
    if (!is_in_line_) refuse("what is this line? Text of a step begins with `say:`");
    std::string& before = lines().back().text;
    if (!before.empty()) before += ends_paragraph_ ? '\n' : ' ';
    before += text;
    ends_paragraph_ = false;
  }

  /// Reads the content of a line at once, so that every error is reported with its line.
  void end_line() {
    if (!is_in_line_) return;
    is_in_line_ = false;
    const LessonLine& line = lines().back();
    if (line.text.empty()) refuse_at(line.place, std::string(name_of(line.word)) + ": the text is missing");
    info_of(line.word).check(line);
    check_company(line);
  }

  /// Checks words that may occur once in a step or need another line.
  void check_company(const LessonLine& line) {
    const std::vector<LessonLine>& all = lines();
    const bool is_single = line.word == LessonWord::ask || line.word == LessonWord::answer ||
                           line.word == LessonWord::show || info_of(line.word).is_of_head;
    if (is_single && std::ranges::count(all, line.word, &LessonLine::word) > 1)
      refuse_at(line.place, std::string(name_of(line.word)) + ": this step has one already; begin another step for it");
    if (line.word != LessonWord::answer) return;
    const LessonLine* question = find_line(all, LessonWord::ask);
    if (!question) refuse_at(line.place, "an answer needs its question above it, as `ask: Which? | this | that`");
    const auto choices = read_question(*question).choices.size();
    if (static_cast<std::size_t>(read_answer(line)) > choices)
      refuse_at(line.place, "the question has " + std::to_string(choices) + " choices");
  }

  Lesson lesson_;
  std::string place_;
  int number_ = 0;
  bool is_in_line_ = false, ends_paragraph_ = false;
};

}  // namespace

std::string_view name_of(LessonWord word) { return info_of(word).name; }

const LessonLine* find_line(std::span<const LessonLine> lines, LessonWord word) {
  return find_by(lines, word, &LessonLine::word);
}

Lesson parse_lesson(std::string_view text, const std::string& name) {
  if (text.size() > max_bytes) throw BadInput(name, ": a lesson of more than 1 MiB is not read");
  if (!is_utf8(std::string(text))) throw BadInput(name, ": this is not UTF-8 text");
  if (text.find('\0') != std::string_view::npos) throw BadInput(name, ": this is not text");
  LessonReader reader(name);
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    reader.take(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return reader.result();
}

Lesson open_lesson(const std::string& name_or_path) {
  std::vector<std::string> names;
  for (const ShippedLesson& shipped : shipped_lessons()) {
    if (shipped.name == name_or_path) return parse_lesson(shipped.text, shipped.name + ".md");
    names.push_back(shipped.name);
  }
  const std::filesystem::path path = name_or_path;
  std::error_code unknown;
  const bool is_file_name = path.has_parent_path() || path.has_extension();
  if (!std::filesystem::exists(path, unknown))
    throw Error(is_file_name ? ExitCode::bad_input : ExitCode::usage, "there is no lesson, and no file, ",
                in_quotes(name_or_path), which_there_are(name_or_path, names));
  return parse_lesson(read_file(path, max_bytes), path.filename().string());
}

}  // namespace afterglow
