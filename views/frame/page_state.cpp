// Notes appear and fade; the rest of the page's state is plain values.
#include "views/frame/page_state.h"

#include "core/recipe/lesson_lines.h"
#include "views/plots/plot_kinds.h"

namespace afterglow {
namespace {
constexpr std::size_t max_notes = 3;
}

bool shows_control(const PageState& state, std::string_view name) {
  const LessonLine* line = state.lesson.lesson ? find_line(state.lesson.lesson->head, LessonWord::controls) : nullptr;
  if (!line) return true;
  const std::vector<std::string> names = read_names(*line);
  return std::ranges::find(names, name) != names.end();
}

bool is_stressed(const PageState& state, std::string_view panel) {
  if (!state.lesson.lesson) return true;
  const LessonLine* line = find_line(state.lesson.lesson->steps[state.lesson.step].lines, LessonWord::highlight);
  if (!line || line->text == "none") return true;
  return std::ranges::any_of(read_names(*line), [&](const std::string& name) { return present_id(name) == panel; });
}

const ShownPlot* meant_plot(const PageState& state) {
  const std::string& panel = state.pointer.panel.empty() ? state.maximised : state.pointer.panel;
  const ShownPlot* first = nullptr;
  for (const ShownPlot& shown : state.drawn.plots) {
    if (!state.pointer.plot.empty() && shown.plot == state.pointer.plot) return &shown;
    if (!first && shown.panel == panel) first = &shown;
  }
  return state.pointer.plot.empty() ? first : nullptr;
}

void add_note(PageState& state, Severity severity, std::string text, double now) {
  state.notes.push_back({severity, std::move(text), now});
  while (state.notes.size() > max_notes) state.notes.pop_front();
}

void complete_hint(PageState& state, const Command& command) {
  if (command.name == "drag_mode") state.hints.is_drag_due = false;
}

void note_events(PageState& state, const Observation& observation, double now) {
  const std::vector<Event>& events = observation.events;
  // The list contains only the newest events, so the last seen one is found by its content, not its number.
  std::size_t first = 0;
  for (std::size_t i = events.size(); i-- > 0 && state.last_event;) {
    if (events[i].step != state.last_event->step || events[i].text != state.last_event->text) continue;
    first = i + 1;
    break;
  }
  first = std::max(first, events.size() > max_notes ? events.size() - max_notes : 0);
  for (std::size_t i = first; i < events.size(); ++i) add_note(state, events[i].severity, events[i].text, now);
  if (!events.empty()) state.last_event = events.back();
}

}  // namespace afterglow
