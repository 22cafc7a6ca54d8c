// Changes that can be undone, whatever they concern, in the order in which the user made them.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace afterglow {

class Journal {
 public:
  /// What a change concerns.
  enum class Scope { run, inspection, view };
  using Undo = std::function<void()>;
  /// Makes a change, for the first time or again, and returns what takes it back.
  using Change = std::function<Undo()>;
  /// When the changes that `undo` and `redo` would take were made or undone (nothing without one), and when the last
  /// new change was made.
  struct Times {
    std::optional<std::uint64_t> undo, redo;
    std::uint64_t change = 0;
  };

  /// The number of commands that the user has given. A change carries the number at which it was last made or undone,
  /// which orders the changes of two journals.
  std::uint64_t now = 0;

  /// Makes a change and records it; what was undone before can no longer be repeated. If the change throws, nothing is
  /// recorded. Changes of one gesture (a drag) are one; it goes on while they are live.
  void perform(Scope scope, Change change, const std::string& gesture = "", bool is_live = false);
  /// Whether the next change of this gesture belongs to the last one.
  bool continues(const std::string& gesture) const { return !gesture.empty() && gesture == gesture_; }
  void end_gesture() { gesture_.clear(); }
  /// Takes the last change back, or repeats the one that was undone last; returns its scope, nothing without one.
  std::optional<Scope> undo();
  std::optional<Scope> redo();
  /// Forgets the changes of a scope, which can no longer be undone or repeated.
  void forget(Scope scope);
  Times times() const;

 private:
  struct Entry {
    Scope scope;
    std::uint64_t time;
    Change change;
    Undo undo;
  };
  std::vector<Entry> done_, undone_;
  std::uint64_t changed_ = 0;  // time of the last new change
  std::string gesture_;        // in progress; empty: none
};

}  // namespace afterglow
