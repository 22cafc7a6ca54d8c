// Always one object with the same keys.
#include "app/window/status.h"

#include <nlohmann/json.hpp>

#include "core/engine/recipe/lesson_plan.h"

namespace afterglow {

namespace {

using nlohmann::json;

json lesson_of(const LessonPane& pane) {
  if (!pane.lesson) return nullptr;
  const LessonStepPlan& plan = (*pane.plans)[pane.step];
  return {{"name", pane.lesson->name},
          {"step", pane.step + 1},
          {"steps", pane.lesson->steps.size()},
          {"begun", pane.begun},
          {"done", pane.deed >= plan.deeds.size()},
          {"asks", pane.asks},
          {"choices", plan.question ? plan.question->choices.size() : 0},
          {"answer", plan.answer},
          {"answered", pane.answered},
          {"reached", pane.reached},
          {"problem", pane.problem}};
}

}  // namespace

std::string status_of(const PageState& page, const Observation& now, bool is_settled) {
  const json recipe = json::parse(now.recipe, nullptr, false);
  const json status = {{"lesson", lesson_of(page.lesson)},
                       {"run",
                        {{"settled", is_settled},
                         {"step", now.step},
                         {"running", now.running},
                         {"checksum", now.checksum},
                         {"checksum_step", now.checksum_step},
                         {"runs", now.runs.size()},
                         {"recipe", recipe.is_discarded() ? json(nullptr) : recipe}}},
                       {"page",
                        {{"workspace", page.workspace},
                         {"maximised", page.maximised},
                         {"shown_figure", page.shown_figure},
                         {"selection", json::parse(selection_value(page.selection))},
                         {"theme", page.theme},
                         {"presenting", page.presenting},
                         {"blank", page.is_blank},
                         {"presenter", page.has_presenter}}}};
  return status.dump(1) + "\n";
}

}  // namespace afterglow
