// Buttons that show another window of the held-out part and add the forecasts of other runs.

#include "views/analyses/memory/memory_figures.h"
#include "views/panels/panel_draws.h"

namespace afterglow {

namespace {

double draw_runs_chip(Frame& frame, const ForecastView& view, double right, const Rect& row) {
  const bool has_runs = !view.runs.empty();
  const std::string label = has_runs ? std::to_string(view.runs.size()) + " runs" : "add run";
  const ChipResult chip =
      header_chip(frame, "runs", right, row, label, has_runs,
                  has_runs ? "Shows this run alone again" : "Adds the forecast of another seed's snapshot");
  if (!chip.clicked) return chip.left;
  if (has_runs) {
    frame.commands.send(Command{"compare_runs", R"({"paths": []})"});
  } else {
    // The user only has to type the file's name.
    frame.commands.send("palette", {{"text", std::string("compare_runs path=other_seed.safetensors")}});
  }
  return chip.left;
}

double draw_forecast_controls(Frame& frame, const Rect& row) {
  const ForecastView* view = frame.seen().forecast.get();
  if (!view || view->windows.empty() || row.width < frame.px(130)) return row.right();
  const double chip = command_chip(frame, {"probe", {{"index", view->windows.front().index + view->horizon}}}, "window",
                                   row.right(), row, "next window", false, "Forecasts the window after this one");
  return row.width < frame.px(220) ? chip : draw_runs_chip(frame, *view, chip - frame.px(6), row);
}

}  // namespace

std::vector<PanelDrawing> forecast_drawings() { return {{"forecast", draw_figure_grid, draw_forecast_controls}}; }

}  // namespace afterglow
