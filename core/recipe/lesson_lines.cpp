// The grammar of a lesson's lines.
#include "core/recipe/lesson_lines.h"

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/io/error.h"
#include "core/io/json_file.h"
#include "core/io/named.h"
#include "core/io/number_text.h"
#include "core/io/wording.h"

namespace afterglow {
namespace {

constexpr std::int64_t max_step_number = 1'000'000'000;

[[noreturn]] void refuse(const LessonLine& line, const std::string& what) { throw BadInput(line.place, ": ", what); }

std::vector<std::string_view> split(std::string_view text, std::string_view sign) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t end = text.find(sign);
    parts.push_back(trimmed(text.substr(0, end)));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + sign.size());
  }
}

/// Separates choices and sentences; a bar without spaces belongs to a formula such as |λ|.
constexpr std::string_view bar = " | ";

/// Whether the text is a dotted name of a field or setting.
bool is_field_name(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '_' || c == '.' || c >= 0x80;
  });
}

std::optional<std::int64_t> whole_number(std::string_view text) {
  const std::optional<double> number = parse_number(text);
  if (!number || !(*number >= 0 && *number <= static_cast<double>(max_step_number))) return std::nullopt;
  const auto whole = static_cast<std::int64_t>(*number);
  return static_cast<double>(whole) == *number ? std::optional(whole) : std::nullopt;
}

/// "power=2 0..8" between its braces.
LessonNumber parse_number_in_text(std::string_view text, const LessonLine& line) {
  const std::string example = "; a number that can be dragged is written `{power=2}` or `{power=2 0..8}`";
  const std::size_t equals = text.find('=');
  LessonNumber number;
  number.name = trimmed(text.substr(0, equals));
  if (equals == std::string_view::npos || !is_field_name(number.name))
    refuse(line, "{" + std::string(text) + "} names no field" + example);
  std::string_view rest = trimmed(text.substr(equals + 1));
  const std::size_t space = rest.find(' ');
  const std::optional<double> value = parse_number(rest.substr(0, space));
  if (!value) refuse(line, in_quotes(rest.substr(0, space)) + " is no number" + example);
  number.value = *value;
  if (space == std::string_view::npos) return number;
  const std::string_view range = trimmed(rest.substr(space));
  const std::size_t dots = range.find("..");
  const std::optional<double> low = dots == std::string_view::npos ? std::nullopt : parse_number(range.substr(0, dots));
  const std::optional<double> high = low ? parse_number(range.substr(dots + 2)) : std::nullopt;
  if (!low || !high || !(*low < *high) || !(*value >= *low && *value <= *high))
    refuse(line, in_quotes(range) + " is not a range that contains the number" + example);
  number.low = *low;
  number.high = *high;
  return number;
}

/// Throws unless each formula in the text has both `$`.
void require_whole_formulas(std::string_view text, const LessonLine& line) {
  if (std::ranges::count(text, '$') % 2 != 0)
    refuse(line, "a formula begins and ends with $: " + in_quotes(text.substr(text.rfind('$'), 20)));
  if (text.find("$$") != std::string_view::npos) refuse(line, "write a formula between $ and $");
}

/// Reads the text of a `say` line piece by piece.
class PieceReader {
 public:
  explicit PieceReader(const LessonLine& line) : line_(&line) {}

  std::vector<LessonPiece> result() {
    const std::string_view text = line_->text;
    for (std::size_t i = 0; i < text.size();) {
      if (text[i] == '\n') {
        close(LessonPiece::Kind::words);
        pieces_.push_back({LessonPiece::Kind::paragraph_end, ""});
        ++i;
      } else if (text[i] == '$') {
        i = take(i, '$', LessonPiece::Kind::formula, "a formula begins and ends with $");
      } else if (text[i] == '*') {
        i = take(i, '*', LessonPiece::Kind::emphasis, "emphasis begins and ends with *");
      } else if (text[i] == '{') {
        i = take(i, '}', LessonPiece::Kind::number, "a number begins with { and ends with }");
      } else {
        words_ += text[i++];
      }
    }
    close(LessonPiece::Kind::words);
    return std::move(pieces_);
  }

 private:
  void close(LessonPiece::Kind kind) {
    if (!words_.empty()) pieces_.push_back({kind, std::exchange(words_, {})});
  }

  /// Reads from the sign at `begin` to the one that ends it; returns the position after it.
  std::size_t take(std::size_t begin, char end_sign, LessonPiece::Kind kind, const char* rule) {
    close(LessonPiece::Kind::words);
    const std::size_t end = line_->text.find(end_sign, begin + 1);
    const std::string inside = line_->text.substr(begin + 1, end - begin - 1);
    if (end == std::string::npos || inside.empty() || inside.find('\n') != std::string::npos)
      refuse(*line_, std::string(rule) + ", within one paragraph: " + in_quotes(line_->text.substr(begin, 20)));
    LessonPiece piece{kind, inside};
    if (kind == LessonPiece::Kind::number) piece.number = parse_number_in_text(inside, *line_);
    pieces_.push_back(std::move(piece));
    return end + 1;
  }

  const LessonLine* line_;
  std::vector<LessonPiece> pieces_;
  std::string words_;
};

}  // namespace

std::vector<LessonAssignment> read_assignments(const LessonLine& line) {
  std::vector<LessonAssignment> assignments;
  for (const std::string_view part : split(line.text, ";")) {
    const std::size_t equals = part.find('=');
    LessonAssignment one{std::string(trimmed(part.substr(0, equals))), ""};
    if (equals != std::string_view::npos) one.value = trimmed(part.substr(equals + 1));
    if (!is_field_name(one.name) || one.value.empty())
      refuse(line, in_quotes(part) + " sets nothing; write `set: preset = tiny ; seed = 7`");
    assignments.push_back(std::move(one));
  }
  return assignments;
}

LessonStretch read_stretch(const LessonLine& line) {
  std::string_view text = line.text;
  LessonStretch stretch;
  stretch.is_to = text.starts_with("to ");
  if (stretch.is_to) text.remove_prefix(3);
  for (const std::string_view word : {" steps", " step"}) {
    if (text.ends_with(word)) text.remove_suffix(word.size());
  }
  const std::optional<std::int64_t> steps = whole_number(trimmed(text));
  if (!steps || (*steps == 0 && !stretch.is_to))
    refuse(line, in_quotes(line.text) + " is not a number of steps; write `run: 200 steps` or `run: to 600`");
  stretch.steps = *steps;
  return stretch;
}

Command read_command(const LessonLine& line) {
  const std::size_t end = std::min(line.text.find_first_of(" {\n"), line.text.size());
  const std::string name = line.text.substr(0, end);
  const std::string_view value = trimmed(std::string_view(line.text).substr(end));
  if (!find_command(name)) {
    std::vector<std::string> known = names_of(command_table(), &CommandSpec::name);
    refuse(line, "there is no command " + in_quotes(name) + did_you_mean(name, known) +
                     "; write `command: select {\"head\": 2}`, and `afterglow info` lists them");
  }
  nlohmann::json json = nlohmann::json::object();
  if (!value.empty()) json = parse_json(value, line.place + ", the value of " + name);
  if (!json.is_object()) refuse(line, "the value of " + name + " is an object, as `command: select {\"head\": 2}`");
  return {name, json};
}

std::vector<std::string> read_names(const LessonLine& line) {
  std::vector<std::string> names(1);
  for (const char c : line.text) {
    if (!is_blank(c) && c != ',') {
      names.back() += c;
    } else if (!names.back().empty()) {
      names.emplace_back();
    }
  }
  if (names.back().empty()) names.pop_back();
  if (names.empty())
    refuse(line, "names of panels are missing, as `" + std::string(name_of(line.word)) + ": spectrum`");
  return names;
}

LessonFocus read_focus(const LessonLine& line) {
  const std::vector<std::string> names = read_names(line);
  LessonFocus focus{names.front()};
  if (names.size() == 1) return focus;
  const std::optional<std::int64_t> number = whole_number(names[1]);
  constexpr std::int64_t max_figures = 64;
  if (names.size() > 2 || !number || *number < 1 || *number > max_figures)
    refuse(line,
           in_quotes(line.text) + " names no panel; write `focus: inside`, or `focus: inside 3` for its third figure");
  focus.figure = static_cast<int>(*number);
  return focus;
}

LessonQuestion read_question(const LessonLine& line) {
  const std::vector<std::string_view> parts = split(line.text, bar);
  const bool is_whole =
      (parts.size() == 3 || parts.size() == 4) && std::ranges::none_of(parts, &std::string_view::empty);
  if (!is_whole)
    refuse(line,
           "a question needs two or three choices after it, as `ask: Which lasts longer? | the first | the second`");
  for (const std::string_view part : parts) require_whole_formulas(part, line);
  return {std::string(parts.front()), {parts.begin() + 1, parts.end()}};
}

int read_answer(const LessonLine& line) {
  const std::optional<std::int64_t> number = whole_number(line.text);
  if (!number || *number < 1 || *number > 3) refuse(line, "an answer is 1, 2 or 3, the number of the right choice");
  return static_cast<int>(*number);
}

LessonShown read_shown(const LessonLine& line) {
  const std::vector<std::string_view> parts = split(line.text, bar);
  if (parts.size() != 2 || !is_field_name(parts[0]) || parts[1].empty())
    refuse(line, "write a number and what it is, as `show: probe.accuracy | right answers`");
  return {std::string(parts[0]), std::string(parts[1])};
}

LessonGoal read_goal(const LessonLine& line) {
  const std::size_t end = line.text.find(bar);
  LessonGoal goal;
  if (end != std::string::npos) goal.sentence = trimmed(std::string_view(line.text).substr(end + bar.size()));
  if (goal.sentence.empty())
    refuse(line, "a goal needs a sentence after it, as `goal: loss < 0.5 | The loss is below one half`");
  require_whole_formulas(goal.sentence, line);
  goal.condition = parse_condition(std::string_view(line.text).substr(0, end), line.place);
  for (const Comparison& comparison : goal.condition.comparisons) {
    for (const ConditionSide* side : {&comparison.left, &comparison.right}) {
      if (!side->at.empty() && side->at != "start")
        refuse(line, "a goal compares with the start of its own step, as `loss < 0.5 * loss@start`");
    }
  }
  return goal;
}

Condition read_expectation(const LessonLine& line) { return parse_condition(line.text, line.place); }

std::vector<LessonPiece> read_pieces(const LessonLine& line) { return PieceReader(line).result(); }

std::vector<LessonNumber> numbers_in(const LessonLine& line) {
  std::vector<LessonNumber> numbers;
  for (const LessonPiece& piece : read_pieces(line)) {
    if (piece.kind == LessonPiece::Kind::number) numbers.push_back(piece.number);
  }
  return numbers;
}

}  // namespace afterglow
