// The data that each part of the page gets in every frame, and the prepared figures.
#pragma once
#include <memory>
#include <string_view>
#include <vector>

#include "views/figures/recently_used.h"
#include "views/frame/command_queue.h"
#include "views/frame/page_state.h"
#include "views/look/look.h"
#include "views/plots/plot_kinds.h"

namespace afterglow {

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
