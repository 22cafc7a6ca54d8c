// The figures of the newest observation.
#include "views/frame/frame.h"

namespace afterglow {

const std::vector<Figure>& FigureCache::figures(const PlotKind& kind,
                                                const std::shared_ptr<const Observation>& observation,
                                                const Selection& selection) {
  Entry& entry = entries_[kind.id];
  if (entry.observation != observation || entry.second != second_ || entry.selection != selection) {
    entry.figures = prepared_figures(kind, *observation, selection, curves_);
    if (second_ && kind.needs_model)
      entry.figures = compared_figures(kind, std::move(entry.figures), *second_, selection, second_curves_);
    entry.observation = observation;
    entry.second = second_;
    entry.selection = selection;
  }
  return entry.figures;
}

}  // namespace afterglow
