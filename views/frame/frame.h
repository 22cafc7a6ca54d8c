// The data that each part of the page gets in every frame, the prepared figures, and the commands with which views
// answer.
#pragma once
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/recipe/command.h"
#include "views/figures/recently_used.h"
#include "views/frame/page_state.h"
#include "views/look/look.h"
#include "views/plots/plot_kinds.h"

namespace afterglow {

/// Plain values that the window sends to the engine or runs itself.
class CommandQueue {
 public:
  void send(std::string name, nlohmann::json fields = nullptr) {
    commands_.emplace_back(std::move(name), std::move(fields));
  }
  void send(Command command) { commands_.push_back(std::move(command)); }
  std::vector<Command> take() { return std::exchange(commands_, {}); }
  const std::vector<Command>& waiting() const { return commands_; }
  /// With locked controls: drops the commands that only controls may send.
  void drop_controls();

 private:
  std::vector<Command> commands_;
};

/// Figures of each plot, prepared again only when the observation or the selection changes.
class FigureCache {
 public:
  const std::vector<Figure>& figures(const PlotKind& kind, const std::shared_ptr<const Observation>& observation,
                                     const Selection& selection);
  /// Draws a second observation over the first one in every plot; null: none.
  void compare(std::shared_ptr<const Observation> second) { second_ = std::move(second); }
  const std::shared_ptr<const Observation>& second() const { return second_; }

 private:
  struct Entry {
    std::shared_ptr<const Observation> observation, second;
    Selection selection;
    std::vector<Figure> figures;
  };
  RecentlyUsed<Entry> entries_;
  std::shared_ptr<const Observation> second_;
  CurveStore curves_, second_curves_;
};

struct Frame {
  std::shared_ptr<const Observation> observation;  ///< never null
  const Look& look;
  PageState& state;
  CommandQueue& commands;
  FigureCache& figures;
  double time = 0;  ///< seconds since the window opened

  const Observation& seen() const { return *observation; }
  double px(double units) const { return look.px(units); }
};

}  // namespace afterglow
