// `afterglow check`: runs lessons without a window and reports for each step whether its expectations are met.

#include "app/cli/interruption.h"
#include "app/cli/start.h"
#include "app/lessons/lesson_options.h"
#include "app/lessons/lesson_runner.h"
#include "app/window/window.h"
#include "core/io/json.h"
#include "core/io/json_file.h"
#include "core/io/number_text.h"

namespace afterglow {
namespace {

constexpr int steps_of_a_preset = 20;  // trained before its numbers are listed

json json_of(const LessonStepResult& result) {
  json expectations = json::array();
  for (const ExpectationResult& one : result.expectations) {
    expectations.push_back({{"place", one.line->place}, {"expect", one.line->text}, {"ok", one.verdict.holds}});
    if (!one.verdict.holds) expectations.back()["why"] = one.verdict.why;
  }
  return {{"title", result.step->title},           {"ok", result.is_ok()}, {"seconds", result.seconds},
          {"memory_bytes", result.resident_bytes}, {"step", result.at},    {"checksum", result.checksum},
          {"expectations", expectations}};
}

/// Prints the step, and adds what is wrong.
void say_step(const LessonStepResult& result, std::size_t number, std::vector<std::string>& wrong,
              const Output& output) {
  output.print("  %2zu  %-6s %6.1f s  %8s  %s", number, result.is_ok() ? "ok" : "WRONG", result.seconds,
               bytes_text(result.resident_bytes).c_str(), result.step->title.c_str());
  for (const ExpectationResult& one : result.expectations) {
    if (one.verdict.holds) continue;
    wrong.push_back(one.line->place + ": " + one.verdict.why);
    output.line("      ", wrong.back());
  }
}

json check_lesson(LessonRunner& runner, std::vector<std::string>& wrong, Output& output) {
  const Lesson& lesson = runner.lesson();
  output.line(lesson.name, ": ", lesson.title);
  json steps = json::array();
  double slowest = 0;
  std::int64_t most = 0;
  const std::size_t wrong_before = wrong.size();
  for (std::size_t i = 0; i < runner.steps(); ++i) {
    const LessonStepResult result = runner.run_step(i);
    slowest = std::max(slowest, result.seconds);
    most = std::max(most, result.resident_bytes);
    say_step(result, i + 1, wrong, output);
    steps.push_back(json_of(result));
  }
  if (wrong.size() == wrong_before)
    output.print("ok on this machine: %zu steps, slowest %.1f s, needs %s", steps.size(), slowest,
                 bytes_text(most).c_str());
  return {{"lesson", lesson.name}, {"ok", wrong.size() == wrong_before}, {"steps", steps}};
}

/// For a preset: a lesson that trains it for some steps.
Lesson lesson_named(const std::string& name) {
  if (std::ranges::find(presets(), name, &Preset::name) == presets().end()) return open_lesson(name);
  return parse_lesson(
      "# " + name + "\n## Numbers\nset: preset = " + name + "\nrun: " + std::to_string(steps_of_a_preset) + " steps\n",
      name);
}

json list_names(const std::string& name, const SessionOptions& options, Output& output) {
  LessonRunner runner(lesson_named(name), options, [] { Interruption::check("before the numbers were listed"); });
  for (std::size_t i = 0; i < runner.steps(); ++i) runner.run_step(i);
  json names = json::object();
  for (const NamedNumber& number : runner.numbers()) {
    const json value = number.value.word.empty() ? json_number(number.value.number) : json(number.value.word);
    const char* how = number.name.find(".mode.") == std::string::npos ? "" : "  (counted by size, the largest is 0)";
    if (!names.contains(number.name)) output.line(number.name, "  ", value.dump(), how);
    names.emplace(number.name, value);
  }
  return {{"names", names}};
}

}  // namespace

json check(const CheckOptions& options, const CommonOptions& common, Output& output) {
  const Interruption noticed;
  const SessionOptions session = session_options(common);
  if (options.lists_names)
    return list_names(options.lessons.empty() ? "few-modes" : options.lessons[0], session, output);
  std::vector<std::string> names = options.lessons;
  if (names.empty()) {
    for (const ShippedLesson& shipped : shipped_lessons()) names.push_back(shipped.name);
  }
  std::vector<Lesson> lessons;  // reads all before it runs any
  for (const std::string& name : names) {
    lessons.push_back(open_lesson(name));
    require_known_panels(lessons.back(), workspace_names());
    plan_lesson(lessons.back());
  }
  std::vector<std::string> wrong;
  json results = json::array();
  for (Lesson& lesson : lessons) {
    const std::string name = lesson.name;
    LessonRunner runner(std::move(lesson), session, [&] { Interruption::check("during " + name); });
    results.push_back(check_lesson(runner, wrong, output));
  }
  if (wrong.empty()) return {{"lessons", results}};
  std::string text =
      std::to_string(wrong.size()) + (wrong.size() == 1 ? " expectation is" : " expectations are") + " not met";
  for (const std::string& one : wrong) text += (&one == &wrong.front() ? ": " : "; ") + one;
  throw Error(ExitCode::check_failed, text);
}

}  // namespace afterglow
