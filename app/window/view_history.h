// Undo of everything outside of the run: the page, the enlarged panel, shares, views of plots, the selection. The run
// has its own undo; this class only remembers the order of both kinds of changes.
#pragma once
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "views/page_state.h"

namespace afterglow {

class ViewHistory {
 public:
  /// Compares the page after the commands of a frame with the last view. A difference is a change, once no mouse button
  /// is held; changes within a short time are one.
  void watch(const PageState& page, bool is_held, double time);
  /// The page has changed by itself, for a run that was opened: there is nothing to undo.
  void accept(const PageState& page);
  /// A command went to the engine: if the engine can undo it, it is recorded between the changes of the view.
  void note(const Command& command);
  /// Undoes or repeats the newest change if it is one of the view. False if it is one of the run, or if none is left:
  /// then the engine acts.
  bool undo(PageState& page) { return take(page, done_, undone_, &Change::before); }
  bool redo(PageState& page) { return take(page, undone_, done_, &Change::after); }

 private:
  struct PlotView {
    std::optional<Range> x, y;
    std::optional<Scale> x_scale, y_scale;
    std::set<std::string> hidden;
    bool operator==(const PlotView&) const = default;
  };
  struct View {
    std::string workspace, maximised;
    int panel_page = 0;
    std::map<std::string, std::vector<double>> splits;
    std::map<std::string, int> shown_figure;
    std::map<std::string, PlotView> plots;
    Selection selection;
    bool operator==(const View&) const = default;
  };
  struct Change {
    View before, after;
    double time = 0;
    bool is_of_run = false;
    std::string dragged;  ///< of the run: the present drag, which is one change
  };

  static View view_of(const PageState& page);
  static void show(PageState& page, const View& view);
  bool take(PageState& page, std::vector<Change>& from, std::vector<Change>& to, View Change::*view);
  void add(Change change);

  std::optional<View> last_;
  std::vector<Change> done_, undone_;
};

}  // namespace afterglow
