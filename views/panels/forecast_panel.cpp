// The switch that goes to another window of the held-out part.
#include "views/figures/forecast_figures.h"
#include "views/panels/panel_draws.h"

namespace afterglow {

double draw_forecast_controls(Frame& frame, const Rect& row) {
  const ForecastView* view = frame.seen().forecast.get();
  if (!view || view->windows.empty() || row.width < frame.px(130)) return row.right();
  const ChipResult chip =
      header_chip(frame, "window", row.right(), row, "next window", false, "Forecast the window after this one");
  if (chip.clicked) frame.commands.send("probe", {{"index", view->windows.front().index + view->horizon}});
  return chip.left;
}

}  // namespace afterglow
