// Notes come and go; everything else of the page's state is plain values.
#include "views/page_state.h"

namespace afterglow {

namespace {
constexpr std::size_t most_notes = 3;
}

void add_note(PageState& state, Severity severity, std::string text, double now) {
  state.notes.push_back({severity, std::move(text), now});
  while (state.notes.size() > most_notes) state.notes.pop_front();
}

void note_events(PageState& state, const Observation& observation, double now) {
  if (observation.events.size() < state.events_seen) state.events_seen = 0;  // another run
  for (; state.events_seen < observation.events.size(); ++state.events_seen) {
    const Event& event = observation.events[state.events_seen];
    add_note(state, event.severity, event.text, now);
  }
}

}  // namespace afterglow
