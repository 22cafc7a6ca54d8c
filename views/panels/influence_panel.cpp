// The switch between log-log axes, where a power law is a straight line, and semi-log ones, where an exponential is.
#include "views/figures/influence_figures.h"
#include "views/panels/panel_draws.h"

namespace afterglow {

namespace {

double draw_scale_chip(Frame& frame, const Rect& row, const char* panel, const char* first_plot) {
  if (row.width < frame.px(150)) return row.right();
  const auto plot = frame.state.plots.find(first_plot);
  const bool is_semi_log =
      plot != frame.state.plots.end() && plot->second.x_scale.value_or(Scale::log) == Scale::linear;
  const ChipResult chip = header_chip(frame, "semi_log", row.right(), row, is_semi_log ? "semi-log" : "log-log",
                                      is_semi_log, "Lag on a linear or a logarithmic axis  Shift X");
  if (chip.clicked) {
    frame.commands.send("axis_scale", {{"panel", std::string(panel)},
                                       {"axis", std::string("x")},
                                       {"scale", std::string(is_semi_log ? "log" : "linear")}});
  }
  return chip.left;
}

}  // namespace

double draw_influence_controls(Frame& frame, const Rect& row) {
  return draw_scale_chip(frame, row, "influence", "influence_blocks");
}

double draw_race_controls(Frame& frame, const Rect& row) { return draw_scale_chip(frame, row, "race", "race_tails"); }

double draw_routing_controls(Frame& frame, const Rect& row) {
  const RoutingView* routing = selected_routing(frame.seen(), frame.state.selection);
  if (!routing || !routing->feedback.empty() || routing->weights.size() < 2 || row.width < frame.px(190))
    return row.right();
  const int heads = static_cast<int>(routing->weights.size());
  return draw_head_chips(frame, row.right(), row, heads, std::min(frame.state.selection.head, heads - 1));
}

}  // namespace afterglow
