// Opens a lesson, moves through its steps and answers its questions.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "app/window/commands/window_commands.h"
#include "app/window/lesson_player.h"
#include "core/io/error.h"
#include "core/io/json_file.h"
#include "core/recipe/lesson_lines.h"
#include "core/recipe/lesson_plan.h"

namespace afterglow {
namespace {
const std::string where = "the value of lesson";

/// A number of the text, dragged; it acts like the slider of that field.
void set_number(CommandContext& context, const nlohmann::json& value) {
  const LessonPane& pane = context.page.lesson;
  const std::string name = get_string(value, "number", std::nullopt, where);
  const std::vector<LessonLine>& lines = pane.lesson->steps[pane.step].lines;
  const bool is_there = std::ranges::any_of(lines, [&](const LessonLine& line) {
    return line.word == LessonWord::say &&
           std::ranges::any_of(numbers_in(line), [&](const LessonNumber& number) { return number.name == name; });
  });
  if (!is_there) throw BadInput("this step of the lesson has no number \"" + name + "\"");
  Command command = command_of(name, get_number(value, "to", std::nullopt, -1e300, 1e300, where));
  if (find_command(command.name)->target == CommandTarget::window) return run_window_command(context, command);
  if (get_bool(value, "live", false, where)) command.value["live"] = true;
  context.engine.send(std::move(command));
}

}  // namespace

void run_lesson(CommandContext& context, const nlohmann::json& value) {
  refuse_unknown_keys(value, {"open", "by", "to", "again", "answer", "number", "live", "close"}, where);
  PageState& page = context.page;
  if (value.contains("open")) return open_lesson_on(page, get_string(value, "open", std::nullopt, where));
  if (!page.lesson.lesson) {  // no lesson is open, so the user chooses one
    open_picker(context, {{"text", ""}});
    page.picker.section = PickerSection::lessons;
    return;
  }
  if (get_bool(value, "close", false, where)) {
    LessonPane closed;
    closed.width = page.lesson.width;
    page.lesson = std::move(closed);
    return;
  }
  if (value.contains("number")) return set_number(context, value);
  const auto present = static_cast<std::int64_t>(page.lesson.step);
  if (value.contains("answer")) {
    answer_lesson(page, static_cast<int>(get_integer(value, "answer", 1, 1, 3, where)));
  } else if (get_bool(value, "again", false, where)) {
    begin_lesson_step(page, present);
  } else if (value.contains("to")) {
    begin_lesson_step(page, get_integer(value, "to", 1, 1, 1000, where) - 1);
  } else {
    const std::int64_t by = get_integer(value, "by", 1, -1000, 1000, where);
    if (by == 1 && page.lesson.asks) return void(answer_lesson(page, no_vote));
    const auto last = static_cast<std::int64_t>(page.lesson.lesson->steps.size()) - 1;
    const bool stays = (by > 0 && present == last) || (by < 0 && present == 0);
    if (!stays) begin_lesson_step(page, present + by);
  }
}

}  // namespace afterglow
