// State matrices next to each other, the answer at the end of the row.

#include "views/panels/panel_draws.h"
#include "views/plot_widget.h"

namespace afterglow {

namespace {

void draw_stepper(Frame& frame, const Panel& panel, const std::vector<Figure>& figures, const Rect& whole) {
  const Rect area = draw_prompt_row(frame, whole);
  const bool is_row = figures.size() > 1 && area.width > frame.px(150) * static_cast<double>(figures.size()) &&
                      area.width > 1.6 * area.height &&
                      frame.state.shown_figure.find(std::string(panel.kind->id)) == frame.state.shown_figure.end();
  if (!is_row) return draw_figure_grid(frame, panel, figures, area);
  const double gap = frame.px(6), width = (area.width - gap) / static_cast<double>(figures.size());
  for (std::size_t i = 0; i < figures.size(); ++i) {
    const double x = area.x + static_cast<double>(i) * width;
    plot_widget(frame, figures[i], {x, area.y, width - gap, area.height});
  }
}

/// Switches between a scale m that `ska` updates and one that stays as at the chosen token.
double draw_scale_chip(Frame& frame, double right, const Rect& row) {
  const Trace& trace = *frame.seen().trace;
  const int token = selected_token(frame.seen(), frame.state.selection);
  const bool is_kept = trace.scale_kept_behind >= 0;
  const ChipResult chip = header_chip(
      frame, "scale", right, row, "freeze scale m", is_kept,
      is_kept ? "Lets the scale m grow with the keys again"
              : "Keeps the scale m of token " + std::to_string(token) + " for all later tokens (Echo 3.2.1)");
  if (chip.clicked && is_kept) frame.commands.send("freeze_scale");
  if (chip.clicked && !is_kept) frame.commands.send("freeze_scale", {{"behind", std::int64_t{token}}});
  return chip.left;
}

double draw_stepper_controls(Frame& frame, const Rect& row) {
  const auto& trace = frame.seen().trace;
  if (!trace || trace->steps.empty()) return row.right();
  if (row.width < frame.px(110)) return row.right();
  const bool change = frame.state.selection.change;
  const double chip = command_chip(frame, {"select", {{"change", !change}}}, "change", row.right(), row, "show change",
                                   change, "Shows the change since the last token instead of the state");
  const int heads = static_cast<int>(trace->steps.front().heads.size());
  if (row.width < frame.px(250)) return chip;
  const bool has_chip = heads > 0 && (row.width > frame.px(330) || trace->scale_kept_behind >= 0);
  const double left = has_chip ? draw_scale_chip(frame, chip, row) : chip;
  return draw_head_chips(frame, left, row, heads, selected_trace_head(*trace, frame.state.selection));
}

}  // namespace

std::vector<PanelDrawing> stepper_drawings() { return {{"stepper", draw_stepper, draw_stepper_controls}}; }

}  // namespace afterglow
