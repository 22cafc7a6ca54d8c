// The switch of the smoothing; everything else of this panel is the usual grid.
#include <array>

#include "core/figure/axis.h"
#include "views/panels/panel_draws.h"
#include "views/widgets.h"

namespace afterglow {

namespace {

/// The switch of the former curves, once there are any.
double draw_earlier_runs(Frame& frame, double right, const Rect& row) {
  if (frame.seen().runs.size() < 2 || row.width < frame.px(110)) return right;
  const EarlierRuns now = frame.state.selection.earlier;
  const char* label = now == EarlierRuns::grey       ? "ghosts"
                      : now == EarlierRuns::coloured ? "runs in colour"
                                                     : "this run only";
  const ChipResult chip = header_chip(frame, "earlier", right, row, label, now != EarlierRuns::hidden,
                                      "Earlier runs and what a change replaced: grey, in colour, or not at all");
  if (chip.clicked) {
    const std::string next = now == EarlierRuns::grey ? "coloured" : now == EarlierRuns::coloured ? "hidden" : "grey";
    frame.commands.send("select", {{"earlier", next}});
  }
  return chip.left;
}

double draw_training_controls(Frame& frame, const Rect& row) {
  if (row.width < frame.px(90)) return row.right();
  const double smoothing = frame.state.selection.smoothing;
  const std::string label = smoothing > 0 ? "smooth " + number_text(smoothing, 3) : "raw";
  const ChipResult chip = header_chip(frame, "smoothing", row.right(), row, label, false,
                                      "Average with bias correction: off, 0.9, 0.98. The raw curve stays visible.");
  if (chip.clicked) {
    frame.commands.send("select", {{"smoothing", smoothing <= 0 ? 0.9 : smoothing < 0.95 ? 0.98 : 0.0}});
  }
  return draw_earlier_runs(frame, chip.left, {row.x, row.y, chip.left - row.x, row.height});
}

constexpr std::array drawings{PanelDrawing{"training", draw_figure_grid, draw_training_controls}};

}  // namespace

std::span<const PanelDrawing> training_drawings() { return drawings; }

}  // namespace afterglow
