// Views are small values, so each change stores the whole view before and after it.
#include "app/window/view_history.h"

#include <utility>

namespace afterglow {

ViewHistory::View ViewHistory::view_of(const PageState& page) {
  View view{page, {}};
  // A plot that was drawn and one that was not are equal until the user changes its view.
  for (const auto& [name, plot] : page.plots) {
    const PlotView& seen = plot;
    if (seen != PlotView()) view.plots[name] = seen;
  }
  return view;
}

void ViewHistory::show(const View& view) {
  static_cast<PageView&>(*page_) = view;
  for (auto& [name, plot] : page_->plots) {
    const auto found = view.plots.find(name);
    static_cast<PlotView&>(plot) = found == view.plots.end() ? PlotView() : found->second;
  }
}

void ViewHistory::watch(bool is_held, double time, std::uint64_t sent) {
  constexpr double one_gesture = 0.6;  // seconds
  if (is_held) return void(was_held_ = true);
  const std::uint64_t at = std::exchange(was_held_, false) ? rested_ : sent;
  rested_ = sent;
  const View now = view_of(*page_);
  if (last_ && !(*last_ == now)) {
    if (time - changed_ >= one_gesture || journal_.now != at) journal_.end_gesture();
    journal_.now = at;
    changed_ = time;
    const auto change = [this, before = *last_, now]() -> Journal::Undo {
      show(now);
      return [this, before] { show(before); };
    };
    journal_.perform(Journal::Scope::view, change, "view", true);
  }
  last_ = now;
}

bool ViewHistory::act(bool undoes, const Journal::Times& run, std::uint64_t sent) {
  const auto own = time_of(undoes, journal_.times()), other = time_of(undoes, run);
  const bool is_outdated = own && !undoes && run.change > *own;
  if (!own || is_outdated || (other && *other > *own && (undoes || !ends_redo(run)))) return false;
  journal_.now = sent;
  undoes ? journal_.undo() : journal_.redo();
  accept();
  return true;
}

}  // namespace afterglow
