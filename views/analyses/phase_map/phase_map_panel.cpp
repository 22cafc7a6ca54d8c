// The phase map with training and spectrum of the run under the pointer; a click opens that run.
#include <span>
#include <string>

#include "views/analyses/phase_map/phase_map_figures.h"
#include "views/figures/studies/sweep_figures.h"
#include "views/panels/panel_draws.h"
#include "views/plot_widget.h"

namespace afterglow {

namespace {

constexpr double map_share = 0.6;

std::string axes_command(const PhaseMapView& map) {
  return "phase_map x=" + map.x + " y=" + map.y + " steps=" + std::to_string(map.steps);
}

void draw_run(Frame& frame, std::span<const Figure> figures, const Rect& area) {
  const double height = area.height / static_cast<double>(figures.size());
  double y = area.y;
  for (const Figure& figure : figures) {
    handle_response(frame, plot_widget(frame, figure, {area.x, y, area.width, height}));
    y += height;
  }
}

/// The run under the pointer, else the best one.
void draw_phase_map(Frame& frame, const Panel& panel, const std::vector<Figure>& figures, const Rect& area) {
  const bool has_room = area.width > frame.px(560);
  const bool is_one_chosen = frame.state.shown_figure.contains(std::string(panel.kind->id)) &&
                             frame.state.shown_figure.at(std::string(panel.kind->id)) >= 0;
  if (figures.empty() || !frame.seen().phase_map || !has_room || is_one_chosen)
    return draw_figure_grid(frame, panel, figures, area);
  const double gap = frame.px(8), left = area.width * map_share;
  const PlotOptions named_by_header{.shows_caption = false};
  const PlotResponse map = plot_widget(frame, figures[0], {area.x, area.y, left - gap, area.height}, named_by_header);
  handle_response(frame, map);
  const PhaseMapView& view = *frame.seen().phase_map;
  if (const std::int64_t clicked = run_of_point(map.clicked_point); clicked >= 0)
    frame.commands.send("phase_map", {{"open", clicked}});
  const Rect rest{area.x + left, area.y, area.width - left, area.height};
  const std::optional<std::size_t> hovered = map.place ? run_at(view, map.place->x, map.place->y) : std::nullopt;
  if (hovered) {
    draw_run(frame, phase_run_figures(view, *hovered), rest);
  } else if (figures.size() > 1) {
    draw_run(frame, std::span(figures).subspan(1), rest);
  } else {
    draw_sentence(frame, "This place shows training and spectrum of the best run as soon as one has finished.", rest);
  }
}

double draw_phase_map_controls(Frame& frame, const Rect& row) {
  const PhaseMapView* map = frame.seen().phase_map.get();
  if (!map || row.width < frame.px(200)) return row.right();
  const std::vector<RunMetric>& numbers = map->sweep.metrics;
  const double number = command_chip(
      frame, {"phase_map", {{"result", numbers[(map->shown + 1) % numbers.size()].name}}}, "number", row.right(), row,
      words_of(numbers[map->shown].name), true, "Shows another number of the same runs as colour");
  // The palette shows the present axes for editing.
  return command_chip(frame, {"palette", {{"text", axes_command(*map)}}}, "axes", number - frame.px(6), row, "axes",
                      false, "Choose two settings, their values and the number of steps of each run");
}

}  // namespace

std::vector<PanelDrawing> phase_map_drawings() { return {{"phase_map", draw_phase_map, draw_phase_map_controls}}; }

}  // namespace afterglow
