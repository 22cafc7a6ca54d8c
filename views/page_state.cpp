// Notes appear and fade; the rest of the page's state is plain values.
#include "views/page_state.h"

namespace afterglow {
namespace {
constexpr std::size_t max_notes = 3;
}

const ShownPlot* meant_plot(const PageState& state) {
  const std::string& panel = state.hovered_panel.empty() ? state.maximised : state.hovered_panel;
  const ShownPlot* first = nullptr;
  for (const ShownPlot& shown : state.shown_plots) {
    if (!state.hovered_plot.empty() && shown.plot == state.hovered_plot) return &shown;
    if (!first && shown.panel == panel) first = &shown;
  }
  return state.hovered_plot.empty() ? first : nullptr;
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
