// The solver race with its spectrum, whose dots can be dragged; the warning; switches of the solver plots.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "views/analyses/solvers/solver_figures.h"
#include "views/panels/panel.h"
#include "views/widgets/plot_widget.h"
#include "views/widgets/widgets.h"

namespace afterglow {
namespace {

/// The advice in amber, above the plots, but not on a slide, where it may tell the answer; returns the height used.
double draw_advice(const Frame& frame, const std::string& advice, const Rect& area) {
  if (advice.empty() || area.width < frame.px(120) || is_slide(frame.state)) return 0;
  FigureCanvas canvas = frame.look.canvas();
  const Color amber = ink_color(*frame.look.theme, Role::warning);
  const double margin = frame.px(8), line_height = frame.px(16);
  const std::vector<std::string> lines =
      wrapped_text(canvas, advice, area.width - 4 * margin, frame.px(tiny_size), FontFace::regular, 3);
  const Rect box{area.x + margin, area.y + frame.px(2), area.width - 2 * margin,
                 static_cast<double>(lines.size()) * line_height + frame.px(6)};
  canvas.fill_rect(box, frame.px(5), faded(amber, 0.13));
  text_lines(frame.look, canvas, {box.x + margin, box.y + frame.px(3), box.width - 2 * margin, box.height}, lines,
             line_height, {tiny_size, FontFace::regular, amber, Anchor::start});
  return box.height + frame.px(6);
}

void move_eigenvalue(Frame& frame, const PlotResponse& response) {
  constexpr std::string_view prefix = "eigenvalue ";
  const auto& view = frame.seen().solvers;
  if (!response.drag || !response.drag->point.starts_with(prefix) || !view || !view->made_of) return;
  nlohmann::json value{{"eigenvalues", view->made_of->eigenvalues}};
  const auto index = static_cast<std::size_t>(std::atoi(response.drag->point.c_str() + prefix.size()));
  if (index >= view->made_of->eigenvalues.size() || !(response.drag->y > 0)) return;
  value["eigenvalues"][index] = response.drag->y;
  if (view->made_of->mu > 0) value["mu"] = view->made_of->mu;
  if (view->made_of->L > 0) value["L"] = view->made_of->L;
  frame.commands.send("solver_problem", value);
}

void draw_one(Frame& frame, const Figure& figure, const Rect& area) {
  move_eigenvalue(frame, plot_widget(frame, figure, area, {.moves_points = figure.id == "solver_spectrum"}));
}

void draw_solver_race(Frame& frame, const Panel& panel, const std::vector<Figure>& figures, const Rect& area) {
  const double strip = draw_advice(frame, solver_advice(frame.seen(), frame.state.selection), area);
  const Rect body{area.x, area.y + strip, area.width, area.height - strip};
  const int shown = frame.state.figure_of(panel.kind->id);
  const double gap = frame.px(4);
  if (shown >= 0 && shown < static_cast<int>(figures.size()))
    return draw_one(frame, figures[static_cast<std::size_t>(shown)], body);
  if (figures.size() < 2 || body.width < frame.px(480)) return draw_figure_grid(frame, panel, figures, body);
  // The race on the left; spectrum, floor and weights next to it, as many as stay readable.
  const double left = std::round(body.width * 0.56);
  draw_one(frame, figures.front(), {body.x, body.y, left - gap, body.height});
  const auto others =
      std::clamp<std::size_t>(static_cast<std::size_t>(body.height / frame.px(150)), 1, figures.size() - 1);
  const double height = body.height / static_cast<double>(others);
  for (std::size_t i = 0; i < others; ++i) {
    draw_one(frame, figures[i + 1],
             {body.x + left, body.y + static_cast<double>(i) * height, body.width - left - gap, height - gap});
  }
}

void draw_conditioning(Frame& frame, const Panel& panel, const std::vector<Figure>& figures, const Rect& area) {
  const double strip = draw_advice(frame, conditioning_advice(frame.seen(), frame.state.selection), area);
  draw_figure_grid(frame, panel, figures, {area.x, area.y + strip, area.width, area.height - strip});
}

double draw_arithmetic_controls(Frame& frame, const Rect& row) {
  if (row.width < frame.px(150)) return row.right();
  const Arithmetic now = selected_arithmetic(frame.seen(), frame.state.selection);
  double right = row.right();
  for (std::size_t i = all_arithmetics.size(); i-- > 0;) {
    const std::string name(name_of(all_arithmetics[i]));
    right = command_chip(frame, {"select", {{"arithmetic", name}}}, name.c_str(), right, row, name,
                         all_arithmetics[i] == now, "Solves in " + name);
  }
  return right;
}

double draw_solver_race_controls(Frame& frame, const Rect& row) {
  double right = draw_arithmetic_controls(frame, row);
  const auto& view = frame.seen().solvers;
  if (!view || right - row.x < frame.px(250)) return right;
  right -= frame.px(8);
  for (const char* shape : {"outlier", "clustered", "geometric"}) {
    right = command_chip(frame, {"solver_problem", {{"shape", shape}}}, shape, right, row, shape, false,
                         "Solves a synthetic spectrum whose dots can be dragged");
  }
  right = command_chip(frame, {"solver_problem", {}}, "layer", right, row, "layer", !view->made,
                       "Solves the systems of the selected layer");
  if (view->made || right - row.x < frame.px(60)) return right;
  return command_chip(frame, {"select", {{"band", !frame.state.selection.band}}}, "band", right - frame.px(8), row,
                      "all systems", frame.state.selection.band,
                      "Shows the systems of all tokens and heads, or only the selected one");
}

}  // namespace

std::vector<PanelDrawing> solver_drawings() {
  return {{"conditioning", draw_conditioning, draw_arithmetic_controls},
          {"solver_race", draw_solver_race, draw_solver_race_controls},
          {"gradient_check", draw_figure_grid, draw_arithmetic_controls},
          {"kalman_filter", draw_figure_grid, draw_arithmetic_controls}};
}

}  // namespace afterglow
