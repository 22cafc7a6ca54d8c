// Sliders above the memory inspector: how much of the memory is used, and how its modes are chosen; buttons that show
// another window of the held-out part and add the forecasts of other runs.
#include <algorithm>
#include <array>

#include "core/engine/observation/memory_view.h"
#include "views/analyses/memory/memory_figures.h"
#include "views/panels/panel.h"
#include "views/widgets/sliders.h"
#include "views/widgets/widgets.h"

namespace afterglow {
namespace {

constexpr std::array memory_knobs{"memory.modes",    "memory.tokens", "memory.rows", "memory.without",
                                  "memory.strategy", "memory.kernel", "memory.tau"};

/// Has an ImGui id of its own, because the left column can show the same setting at the same time.
void draw_memory_knob(Frame& frame, const Setting& setting, const Rect& place) {
  Setting own = setting;
  own.key = "inspector." + setting.key;
  if (own.label.starts_with("memory ")) own.label.erase(0, std::string_view("memory ").size());
  value_slider(frame, own, place, [&](double value, bool is_live) {
    frame.commands.send(SetNumber{setting.key, value, is_live});
  });
}

/// The sliders in rows above the plots, if they fit, and a note on their limits.
void draw_memory_inspector(Frame& frame, const Panel& panel, const std::vector<Figure>& figures, const Rect& area) {
  const double gap = frame.px(14), line = frame.px(20);
  std::vector<Setting> knobs;
  for (const char* key : memory_knobs) {
    const auto& settings = frame.seen().settings;
    const auto found = std::ranges::find(settings, std::string_view(key), &Setting::key);
    if (found != settings.end()) knobs.push_back(*found);
  }
  if (!frame.seen().memory || knobs.empty() || area.height < frame.px(280))
    return draw_figure_grid(frame, panel, figures, area);
  const double rows = draw_slider_rows(
      frame, knobs, 150, area, [&](const Setting& knob, const Rect& place) { draw_memory_knob(frame, knob, place); });
  if (rows == 0) return draw_figure_grid(frame, panel, figures, area);
  const double below = area.y + rows;
  FigureCanvas canvas = frame.look.canvas();
  row_text(frame.look, canvas, {area.x + gap, below, area.width - 2 * gap, line},
           frame.seen().memory->is_of_error
               ? "Uses less than was trained; more needs training: afterglow table etth1_memory."
               : "Uses less than was trained; more needs training.",
           {small_size, FontFace::regular, frame.look.theme->dim, Anchor::start});
  const double above = below + line - area.y;
  draw_figure_grid(frame, panel, figures, {area.x, area.y + above, area.width, area.height - above});
}

double draw_runs_chip(Frame& frame, const ForecastView& view, double right, const Rect& row) {
  const bool has_runs = !view.runs.empty();
  const std::string label = has_runs ? std::to_string(view.runs.size()) + " runs" : "add run";
  const ChipResult chip =
      header_chip(frame, "runs", right, row, label, has_runs,
                  has_runs ? "Shows this run alone again" : "Adds the forecast of another seed's snapshot");
  if (!chip.clicked) return chip.left;
  if (has_runs) {
    frame.commands.send("compare_runs", {{"paths", nlohmann::json::array()}});
  } else {
    // The user only has to type the file's name.
    frame.commands.send("palette", {{"text", "compare_runs path=other_seed.safetensors"}});
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

std::vector<PanelDrawing> memory_drawings() {
  return {{"memory_inspector", draw_memory_inspector}, {"forecast", draw_figure_grid, draw_forecast_controls}};
}

}  // namespace afterglow
