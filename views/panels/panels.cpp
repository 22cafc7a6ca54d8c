// Every plot is a panel; those of `panel_drawings` have their own drawing code.
#include <stdexcept>
#include <string>

#include "core/io/named.h"
#include "views/panels/panel.h"
#include "views/panels/panel_draws.h"

namespace afterglow {
namespace {

std::vector<Panel> all_panels() {
  std::vector<Panel> list;
  for (const PlotKind& kind : plot_kinds()) list.push_back({&kind, draw_figure_grid, nullptr});
  for (const auto drawings : panel_drawings) {
    for (const PanelDrawing& drawing : drawings()) {
      Panel* const panel = find_by(list, drawing.plot, [](const Panel& known) { return known.kind->id; });
      if (panel == nullptr) throw std::logic_error("a panel is drawn of no plot: " + std::string(drawing.plot));
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

const Panel* find_panel(std::string_view id) { return find_by(panels(), find_plot_kind(id), &Panel::kind); }

}  // namespace afterglow
