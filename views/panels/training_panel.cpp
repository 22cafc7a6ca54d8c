// The switch of the smoothing; everything else of this panel is the usual grid.
#include "core/figure/axis.h"
#include "views/panels/panel_draws.h"
#include "views/widgets.h"

namespace afterglow {

double draw_training_controls(Frame& frame, const Rect& row) {
  if (row.width < frame.px(90)) return row.right();
  const double smoothing = frame.state.selection.smoothing;
  const std::string label = smoothing > 0 ? "smooth " + number_text(smoothing, 3) : "raw";
  const ChipResult chip = header_chip(frame, "smoothing", row.right(), row, label, false,
                                      "Average with bias correction: off, 0.9, 0.98. The raw curve stays visible.");
  if (chip.clicked) {
    frame.commands.send("select", {{"smoothing", smoothing <= 0 ? 0.9 : smoothing < 0.95 ? 0.98 : 0.0}});
  }
  return chip.left;
}

}  // namespace afterglow
