// Undo of everything outside of the run: the page, the enlarged panel, shares, views of plots, the selection. The run
// has its own journal on its own thread; both count the commands sent to it, which gives all changes one order.
#pragma once
#include <map>
#include <optional>
#include <string>

#include "core/recipe/journal.h"
#include "views/frame/page_state.h"

namespace afterglow {

class ViewHistory {
 public:
  /// `page` must outlive the history.
  explicit ViewHistory(PageState& page) : page_(&page) {}
  /// Compares the page after the commands of a frame with the last view. A difference is a change, once no mouse button
  /// is held; changes within a short time, with no command to the engine in between, are one. What a gesture of the
  /// mouse does to the run, as by dragging a mode, is undone before what it does to the view. `sent`: the number of
  /// commands sent to the engine.
  void watch(bool is_held, double time, std::uint64_t sent);
  /// The page has changed by itself, for a run that was opened: there is nothing to undo.
  void accept() { last_ = view_of(*page_); }
  /// Whether `undo` (or `redo`) acts on the view whatever the engine makes of the commands that it has not answered.
  bool is_newest(bool undoes, std::uint64_t sent) const { return time_of(undoes, journal_.times()) == sent; }
  /// Undoes or repeats the newest change if it is one of the view. False if it is one of the run, whose journal has the
  /// times `run`, or if there is no such change.
  bool act(bool undoes, const Journal::Times& run, std::uint64_t sent);
  /// Whether a new change of the view has come after what the run would repeat.
  bool ends_redo(const Journal::Times& run) const { return run.redo && journal_.times().change >= *run.redo; }

 private:
  struct View : PageView {
    std::map<std::string, PlotView> plots;
    bool operator==(const View&) const = default;
  };

  static View view_of(const PageState& page);
  void show(const View& view);
  static std::optional<std::uint64_t> time_of(bool undoes, const Journal::Times& times) {
    return undoes ? times.undo : times.redo;
  }

  PageState* page_;
  std::optional<View> last_;
  Journal journal_;
  double changed_ = 0;        // time of the last change
  bool was_held_ = false;     // a mouse button, in the last frame
  std::uint64_t rested_ = 0;  // commands sent in the last frame without a mouse button
};

}  // namespace afterglow
