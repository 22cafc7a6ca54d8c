// The influence of each batch; a click on a batch shows its effect and its first sequences, and the training can
// continue without it.
#include <cmath>
#include <string>

#include "views/analyses/blame/blame_figures.h"
#include "views/panels/panel_draws.h"
#include "views/plot_widget.h"
#include "views/widgets.h"

namespace afterglow {

namespace {

constexpr double line_height = 18;

/// Below the plot: the batch under the pointer, else the chosen one, with as many of its sequences as fit.
void draw_batch(const Frame& frame, const BlameView& view, const std::string& said, const Rect& area) {
  FigureCanvas canvas = frame.look.canvas();
  const Theme& theme = *frame.look.theme;
  row_text(frame.look, canvas, {area.x, area.y, area.width, frame.px(line_height)}, said,
           {small_size, FontFace::regular, theme.text, Anchor::start, true});
  double y = area.y + frame.px(line_height);
  for (const std::string& sequence : view.batch.sequences) {
    if (y + frame.px(line_height) > area.bottom()) break;
    row_text(frame.look, canvas, {area.x, y, area.width, frame.px(line_height)}, sequence,
             {tiny_size, FontFace::mono, theme.dim, Anchor::start, true});
    y += frame.px(line_height);
  }
}

void draw_blame(Frame& frame, const Panel& panel, const std::vector<Figure>& figures, const Rect& area) {
  const BlameView* view = frame.seen().blame.get();
  const double lines = area.height > frame.px(260) ? 4 : 1;
  if (figures.empty() || view == nullptr || area.height < frame.px(150))
    return draw_figure_grid(frame, panel, figures, area);
  const double below = lines * frame.px(line_height) + frame.px(4);
  const Rect strip{area.x, area.y, area.width, area.height - below};
  const PlotOptions named_by_header{.shows_caption = false};
  const PlotResponse response = plot_widget(frame, figures[0], strip, named_by_header);
  handle_response(frame, response);
  if (const std::int64_t clicked = batch_of_point(response.clicked_point); clicked >= 0)
    frame.commands.send("blame", {{"batch", clicked}});
  const std::int64_t hovered =
      response.hovered && response.place ? static_cast<std::int64_t>(std::lround(response.place->x)) : -1;
  std::string said = batch_text(*view, hovered);
  if (said.empty()) said = batch_text(*view, view->batch.step);
  if (said.empty())
    said = view->batch.step >= 0
               ? "step " + std::to_string(view->batch.step) + ": the training without its batch has not run yet."
               : "Click a dot to see its batch.";
  draw_batch(frame, *view, said,
             {area.x + frame.px(8), strip.bottom() + frame.px(2), area.width - frame.px(16), below});
}

double draw_blame_controls(Frame& frame, const Rect& row) {
  if (row.width < frame.px(90)) return row.right();
  const BlameView* view = frame.seen().blame.get();
  const double ask =
      command_chip(frame, {"blame", {}}, "ask", row.right(), row, view ? "Run again" : "Run", view == nullptr,
                   "Repeats the training up to here without each of the last 100 batches");
  if (!view || row.width < frame.px(260)) return ask;
  const double number = command_chip(
      frame, {"blame", {{"result", view->metrics[(view->shown + 1) % view->metrics.size()].name}}}, "number",
      ask - frame.px(6), row, view->metrics[view->shown].name, true, "Compares another number of the same repetitions");
  if (view->batch.step < 0) return number;
  return command_chip(frame, {"skip", {{"step", view->batch.step}}}, "skip", number - frame.px(6), row,
                      "train on without it", false,
                      "Rewinds to just before the chosen step and trains on without its batch");
}

}  // namespace

std::vector<PanelDrawing> blame_drawings() { return {{"blame", draw_blame, draw_blame_controls}}; }

}  // namespace afterglow
