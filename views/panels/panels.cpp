// Every plot is a panel; those of `panel_drawings` have their own drawing code.
#include <algorithm>
#include <stdexcept>
#include <string>

#include "views/panels/panel.h"
#include "views/panels/panel_draws.h"

namespace afterglow {
namespace {

std::vector<Panel> all_panels() {
  std::vector<Panel> list;
  for (const PlotKind& kind : plot_kinds()) list.push_back({&kind, draw_figure_grid, nullptr});
  for (const auto drawings : panel_drawings) {
    for (const PanelDrawing& drawing : drawings()) {
      const auto panel = std::ranges::find_if(list, [&](const Panel& known) { return known.kind->id == drawing.plot; });
      if (panel == list.end()) throw std::logic_error("a panel is drawn of no plot: " + std::string(drawing.plot));
      panel->draw = drawing.draw;
      panel->draw_controls = drawing.draw_controls;
    }
  }
  return list;
}

}  // namespace

std::span<const Panel> panels() {
  static const std::vector<Panel> list = all_panels();
  return list;
}

const Panel* find_panel(std::string_view id) {
  const PlotKind* kind = find_plot_kind(id);
  for (const Panel& panel : panels()) {
    if (panel.kind == kind) return &panel;
  }
  return nullptr;
}

}  // namespace afterglow
