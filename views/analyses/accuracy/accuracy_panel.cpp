// The maps of the accuracy grid; a click on a cell shows a sequence of that task.
#include <nlohmann/json.hpp>

#include "views/analyses/accuracy/accuracy_figures.h"
#include "views/figures/selection.h"
#include "views/panels/panel.h"
#include "views/widgets/plot_widget.h"

namespace afterglow {
namespace {

/// Sends the command `probe`: the grid's own configuration with the numbers of the cell.
void inspected_cell(Frame& frame, const AccuracyGrid& grid, const AccuracyCell& cell) {
  if (!cell.fits) return;
  nlohmann::json task = nlohmann::json::parse(grid.config);
  task["bindings"] = cell.bindings;
  task["length"] = cell.length;
  frame.commands.send("probe", {{"index", 0}, {"task", task}});
  // If this page shows no tokens, opens the one that shows the model's answers.
  if (selected_token(frame.seen(), frame.state.selection) < 0) frame.commands.send("workspace", {{"name", "probe"}});
}

void draw_accuracy_grid(Frame& frame, const Panel& panel, const std::vector<Figure>& figures, const Rect& area) {
  draw_handled_figures(frame, panel, figures, area, [&](const Figure& figure, const PlotResponse& response) {
    const AccuracyView* view = frame.seen().accuracy.get();
    const AccuracyGrid* grid = view ? grid_of(*view, figure) : nullptr;
    const AccuracyCell* cell =
        grid && response.clicked ? cell_at(*grid, response.clicked->x, response.clicked->y) : nullptr;
    if (cell) inspected_cell(frame, *grid, *cell);
  });
}

}  // namespace

std::vector<PanelDrawing> accuracy_drawings() { return {{"accuracy_grid", draw_accuracy_grid}}; }

}  // namespace afterglow
