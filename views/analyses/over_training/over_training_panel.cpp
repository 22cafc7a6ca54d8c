// The loss with the followed number below it, over the same steps; buttons follow common numbers.
#include <string>

#include "views/analyses/over_training/over_training_figures.h"
#include "views/figures/studies/sweep_figures.h"
#include "views/panels/panel_draws.h"
#include "views/plot_widget.h"
#include "views/widgets.h"

namespace afterglow {

namespace {

void draw_over_training(Frame& frame, const Panel& panel, const std::vector<Figure>& figures, const Rect& area) {
  const auto chosen = frame.state.shown_figure.find(std::string(panel.kind->id));
  const bool is_one = chosen != frame.state.shown_figure.end() && chosen->second >= 0;
  if (figures.size() < 2 || is_one || area.height < frame.px(200)) return draw_figure_grid(frame, panel, figures, area);
  const double upper = 0.42 * area.height;
  const PlotOptions named_by_axis{.shows_caption = false};
  handle_response(frame, plot_widget(frame, figures[1], {area.x, area.y, area.width, upper}, named_by_axis));
  handle_response(
      frame, plot_widget(frame, figures[0], {area.x, area.y + upper, area.width, area.height - upper}, named_by_axis));
}

double draw_over_training_controls(Frame& frame, const Rect& row) {
  if (row.width < frame.px(120)) return row.right();
  const double other =
      command_chip(frame, {"palette", {{"text", std::string("over_training number=")}}}, "number", row.right(), row,
                   "choose number …", false, "Follows another number of those that `afterglow check --names` lists");
  const bool is_asked = frame.seen().over_training != nullptr;
  double right = other;
  for (const char* number : {"kappa", "spectral_radius"}) {
    if (row.width < frame.px(260) && number == std::string_view("kappa")) continue;
    const bool is_shown = is_asked && frame.seen().over_training->number == number;
    right = command_chip(frame, {"over_training", {{"number", std::string(number)}}}, number, right, row,
                         words_of(number), is_shown || (!is_asked && right == other),
                         "Follows the " + words_of(number) + " over all kept steps");
  }
  return right;
}

}  // namespace

std::vector<PanelDrawing> over_training_drawings() {
  return {{"over_training", draw_over_training, draw_over_training_controls}};
}

}  // namespace afterglow
