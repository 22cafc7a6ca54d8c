// The twin runs with their sentence; buttons choose the one thing that differs.
#include <array>
#include <string>

#include "views/analyses/microscope/microscope_figures.h"
#include "views/panels/panel_draws.h"
#include "views/plot_widget.h"
#include "views/widgets.h"

namespace afterglow {

namespace {

constexpr double microscope_line = 18;

void draw_microscope(Frame& frame, const Panel& panel, const std::vector<Figure>& figures, const Rect& area) {
  const MicroscopeView* view = frame.seen().microscope.get();
  if (figures.empty() || !view || area.height < frame.px(170)) return draw_figure_grid(frame, panel, figures, area);
  const int lines = area.height > frame.px(240) ? 3 : 2;
  const double below = lines * frame.px(microscope_line) + frame.px(4);
  const PlotOptions named_by_header{.shows_caption = false};
  handle_response(frame,
                  plot_widget(frame, figures[0], {area.x, area.y, area.width, area.height - below}, named_by_header));
  FigureCanvas canvas = frame.look.canvas();
  const Rect row{area.x + frame.px(10), area.bottom() - below + frame.px(2), area.width - frame.px(20), 0};
  text_lines(frame.look, canvas, row,
             wrapped_text(canvas, microscope_text(*view), row.width - frame.px(18), frame.px(small_size),
                          FontFace::regular, lines),
             frame.px(microscope_line), {small_size, FontFace::regular, frame.look.theme->text, Anchor::start, true});
}

double draw_microscope_controls(Frame& frame, const Rect& row) {
  if (row.width < frame.px(150)) return row.right();
  struct Choice {
    const char* label;
    const char* change;
    const char* hint;
  };
  static constexpr std::array choices{
      Choice{"nothing", "same", "Changes nothing: both runs must stay equal, bit for bit"},
      Choice{"one token", "token", "Replaces one token in the first sequence of the next batch"},
      Choice{"one bit", "bit", "Flips the lowest bit of one weight"}};
  double right = row.right();
  right =
      command_chip(frame, {"palette", {{"text", std::string("microscope change=")}}}, "other", right, row, "other …",
                   false, "Changes any field of the recipe, the device or the precision, such as learning_rate=0.002");
  const MicroscopeView* view = frame.seen().microscope.get();
  for (const Choice& choice : choices) {
    const bool is_first = !view && choice.change == std::string_view("bit");
    right = command_chip(frame, {"microscope", {{"change", std::string(choice.change)}}}, choice.change, right, row,
                         choice.label, is_first, choice.hint);
  }
  return right;
}

}  // namespace

std::vector<PanelDrawing> microscope_drawings() { return {{"microscope", draw_microscope, draw_microscope_controls}}; }

}  // namespace afterglow
