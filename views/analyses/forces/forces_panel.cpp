// Eigenvalue forces with a sentence below them about the mode under the pointer, or the chosen one.
#include <string>
#include <utility>
#include <vector>

#include "views/analyses/forces/forces_figures.h"
#include "views/panel.h"
#include "views/panels/panel_draws.h"
#include "views/plot_widget.h"
#include "views/widgets.h"

namespace afterglow {

namespace {

constexpr double forces_line = 18, forces_column = 176;

/// A legend in the colours of the arrows, and the caption of the figure.
std::vector<std::pair<std::string, Color>> forces_legend(const Theme& theme, const HeadForces& forces,
                                                         const Figure& figure) {
  std::vector<std::pair<std::string, Color>> lines = {{"− −  where the loss pulls it", theme.accent},
                                                      {"––  where AdamW moves it", theme.text},
                                                      {"◆  where the step ends", theme.warning},
                                                      {"○  reach of a change of 1 %", theme.faint},
                                                      {figure.subtitle, theme.dim}};
  if (!forces.operated.empty()) lines.emplace(lines.end() - 1, "■  target of the weight edit", theme.failure);
  return lines;
}

/// Text from the top of the area, as far as it fits; returns its end.
double draw_lines(const Frame& frame, const Rect& area, const std::string& text, Color ink) {
  FigureCanvas canvas = frame.look.canvas();
  auto lines = wrapped_text(canvas, text, area.width, frame.px(small_size), FontFace::regular, 9);
  lines.resize(std::min(lines.size(), static_cast<std::size_t>(std::max(0.0, area.height / frame.px(forces_line)))));
  return text_lines(frame.look, canvas, area, lines, frame.px(forces_line),
                    {small_size, FontFace::regular, ink, Anchor::start, true});
}

void draw_forces(Frame& frame, const Panel& panel, const std::vector<Figure>& figures, const Rect& area) {
  const HeadForces* forces = selected_forces(frame.seen(), frame.state.selection);
  const bool has_column = area.width > frame.px(forces_column) + 0.8 * area.height;
  if (figures.size() != 1 || !forces || !has_column) return draw_figure_grid(frame, panel, figures, area);
  const Rect plane{area.x, area.y, area.width - frame.px(forces_column), area.height};
  Figure bare = figures[0];
  bare.labels = LabelPlacement::none;
  const PlotOptions named_by_header{.shows_caption = false};
  const PlotResponse response = plot_widget(frame, bare, plane, named_by_header);
  handle_response(frame, response);
  const int hovered = response.hovered_mode.number;
  std::string said = force_text(*forces, hovered >= 0 ? hovered : frame.state.selection.mode);
  if (said.empty()) said = "Click a dot to see how far it is pulled and moved.";
  const Theme& theme = *frame.look.theme;
  Rect column{plane.right() + frame.px(4), area.y + frame.px(6), frame.px(forces_column - 14),
              area.height - frame.px(8)};
  const auto go_on_at = [&](double y) { column = {column.x, y, column.width, area.bottom() - y}; };
  for (const auto& [text, ink] : forces_legend(theme, *forces, figures[0]))
    go_on_at(draw_lines(frame, column, text, ink));
  go_on_at(column.y + frame.px(8));
  draw_lines(frame, column, said, theme.text);
}

double draw_forces_controls(Frame& frame, const Rect& row) {
  const Observation& seen = frame.seen();
  const Selection& selection = frame.state.selection;
  const HeadForces* chosen = selected_forces(seen, selection);
  if (!chosen || row.width < frame.px(200)) return row.right();
  int heads = 0;
  for (const HeadForces& head : seen.forces->heads) heads += head.layer == chosen->layer;
  const double all = command_chip(frame, {"select", {{"all_heads", !selection.all_heads}}}, "all", row.right(), row,
                                  "all", selection.all_heads, "Shows all heads, one small plot each");
  return draw_head_chips(frame, draw_surgery_chip(frame, all, row), row, heads,
                         selection.all_heads ? -1 : chosen->head);
}

}  // namespace

std::vector<PanelDrawing> forces_drawings() { return {{"forces", draw_forces, draw_forces_controls}}; }

}  // namespace afterglow
