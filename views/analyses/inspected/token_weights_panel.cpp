// The switches of the heads; the usual grid draws the map.

#include "views/analyses/inspected/inspection_figures.h"
#include "views/panels/panel_draws.h"

namespace afterglow {

namespace {

double draw_token_weights_controls(Frame& frame, const Rect& row) {
  const int head = selected_weights_head(frame.seen(), frame.state.selection);
  if (head < 0 || row.width < frame.px(190)) return row.right();
  return draw_head_chips(frame, row.right(), row, frame.seen().token_weights->heads, head);
}

}  // namespace

std::vector<PanelDrawing> token_weights_drawings() {
  return {{"token_weights", draw_figure_grid, draw_token_weights_controls}};
}

}  // namespace afterglow
