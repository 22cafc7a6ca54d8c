// The figures of the newest observation, and what locked controls may not send.
#include "views/frame/frame.h"

namespace afterglow {

void CommandQueue::drop_controls() {
  std::erase_if(commands_, [](const Command& command) {
    const CommandSpec* spec = find_command(command.name);
    return spec && spec->is_control;
  });
}

const std::vector<Figure>& FigureCache::figures(const PlotKind& kind,
                                                const std::shared_ptr<const Observation>& observation,
                                                const Selection& selection) {
  Entry& entry = entries_[kind.id];
  if (entry.observation != observation || entry.second != second_ || entry.selection != selection) {
    entry.figures = prepared_figures(kind, *observation, selection, curves_);
    if (second_ && kind.needs_model)
      entry.figures =
          compared_figures(kind, std::move(entry.figures), *observation, *second_, selection, second_curves_);
    entry.observation = observation;
    entry.second = second_;
    entry.selection = selection;
  }
  return entry.figures;
}

}  // namespace afterglow
