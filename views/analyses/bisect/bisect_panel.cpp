// The bisect plot with its sentence; one button starts it, another one chooses the condition.
#include <string>

#include "views/analyses/bisect/bisect_figures.h"
#include "views/panels/panel_draws.h"
#include "views/plot_widget.h"
#include "views/widgets.h"

namespace afterglow {

namespace {

constexpr double bisect_line = 18;

void draw_bisect(Frame& frame, const Panel& panel, const std::vector<Figure>& figures, const Rect& area) {
  const BisectView* view = frame.seen().bisect.get();
  if (figures.empty() || !view || area.height < frame.px(150)) return draw_figure_grid(frame, panel, figures, area);
  const double below = frame.px(bisect_line) + frame.px(4);
  const PlotOptions named_by_header{.shows_caption = false};
  handle_response(frame,
                  plot_widget(frame, figures[0], {area.x, area.y, area.width, area.height - below}, named_by_header));
  FigureCanvas canvas = frame.look.canvas();
  row_text(frame.look, canvas,
           {area.x + frame.px(10), area.bottom() - below, area.width - frame.px(20), frame.px(bisect_line)},
           bisect_text(*view), {small_size, FontFace::regular, frame.look.theme->text, Anchor::start, true});
}

double draw_bisect_controls(Frame& frame, const Rect& row) {
  if (row.width < frame.px(120)) return row.right();
  const double other =
      command_chip(frame, {"palette", {{"text", std::string("bisect condition=")}}}, "condition", row.right(), row,
                   "condition …", false, "Choose the condition, over any number that `afterglow check --names` lists");
  if (!frame.seen().bisect) return other;
  return command_chip(frame, {"bisect", {}}, "ask", other, row, "Run again", false,
                      "Repeats the training with one part frozen at a time");
}

}  // namespace

std::vector<PanelDrawing> bisect_drawings() { return {{"bisect", draw_bisect, draw_bisect_controls}}; }

}  // namespace afterglow
