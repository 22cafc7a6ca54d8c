// Two stacks: what was done, and what was undone.
#include "core/recipe/journal.h"

#include <utility>

namespace afterglow {

void Journal::perform(Scope scope, Change change, const std::string& gesture, bool is_live) {
  constexpr std::size_t max_changes = 1000;
  Undo undo = change();
  if (continues(gesture)) {
    undo = std::move(done_.back().undo);
    done_.pop_back();
  }
  done_.push_back({scope, now, std::move(change), std::move(undo)});
  if (done_.size() > max_changes) done_.erase(done_.begin());
  undone_.clear();
  changed_ = now;
  gesture_ = is_live ? gesture : "";
}

// The entry leaves its list before it acts, because an action may forget changes.
std::optional<Journal::Scope> Journal::undo() {
  if (done_.empty()) return std::nullopt;
  end_gesture();
  Entry entry = std::move(done_.back());
  done_.pop_back();
  entry.undo();
  entry.time = now;
  undone_.push_back(std::move(entry));
  return undone_.back().scope;
}

std::optional<Journal::Scope> Journal::redo() {
  if (undone_.empty()) return std::nullopt;
  end_gesture();
  Entry entry = std::move(undone_.back());
  undone_.pop_back();
  entry.undo = entry.change();
  entry.time = now;
  done_.push_back(std::move(entry));
  return done_.back().scope;
}

Journal::Times Journal::times() const {
  const auto last = [](const std::vector<Entry>& entries) {
    return entries.empty() ? std::nullopt : std::optional(entries.back().time);
  };
  return {last(done_), last(undone_), changed_};
}

void Journal::forget(Scope scope) {
  end_gesture();
  const auto is_of_it = [scope](const Entry& entry) { return entry.scope == scope; };
  std::erase_if(done_, is_of_it);
  std::erase_if(undone_, is_of_it);
}

}  // namespace afterglow
