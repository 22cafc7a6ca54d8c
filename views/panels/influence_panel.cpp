// The switch between log-log axes, where a power law is a straight line, and semi-log ones, where an exponential is;
// the race with a column for each layer.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "views/figures/influence_figures.h"
#include "views/panels/panel_draws.h"
#include "views/plot_widget.h"

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

/// Kinds that started at initial weights: those that were asked for.
std::vector<std::string> racing(const RaceView& race) {
  std::vector<std::string> kinds;
  for (const RaceEntry& entry : race.entries) {
    if (entry.weights == "initial") kinds.push_back(entry.tail.kind);
  }
  return kinds;
}

/// A switch for every kind: one click adds a layer to the race or drops it.
void draw_kind_chips(Frame& frame, const RaceView& race, const Rect& row) {
  const std::vector<std::string> now = racing(race);
  double right = row.right();
  for (auto kind = race.kinds.rbegin(); kind != race.kinds.rend() && right > row.x; ++kind) {
    const bool is_on = std::find(now.begin(), now.end(), *kind) != now.end();
    const ChipResult chip = header_chip(frame, kind->c_str(), right, row, *kind, is_on,
                                        is_on ? "Drop this layer from the race" : "Add this layer to the race");
    right = chip.left;
    if (!chip.clicked) continue;
    nlohmann::json kinds = nlohmann::json::array();
    for (const std::string& other : race.kinds) {
      const bool was_on = std::find(now.begin(), now.end(), other) != now.end();
      if (was_on != (other == *kind)) kinds.push_back(other);
    }
    if (!kinds.empty()) frame.commands.send(Command{"influence", nlohmann::json{{"race", {{"kinds", kinds}}}}.dump()});
  }
}

/// All layers above, below a column for each with its state, tail and recall.
void draw_race_columns(Frame& frame, const std::vector<Figure>& figures, const Rect& area) {
  const double gap = frame.px(4), top = 0.34 * area.height;
  for (std::size_t i = 0; i < race_overviews; ++i) {
    const double width = area.width / static_cast<double>(race_overviews);
    handle_response(frame, plot_widget(frame, figures[i],
                                       {area.x + static_cast<double>(i) * width, area.y, width - gap, top - gap}));
  }
  const std::size_t columns = (figures.size() - race_overviews) / race_figures_of_a_layer;
  const double width = area.width / static_cast<double>(columns);
  const double height = (area.height - top) / static_cast<double>(race_figures_of_a_layer);
  for (std::size_t i = race_overviews; i < figures.size(); ++i) {
    const std::size_t column = (i - race_overviews) / race_figures_of_a_layer,
                      place = (i - race_overviews) % race_figures_of_a_layer;
    plot_widget(frame, figures[i],
                {area.x + static_cast<double>(column) * width, area.y + top + static_cast<double>(place) * height,
                 width - gap, height - gap});
  }
}

}  // namespace

void draw_race(Frame& frame, const Panel& panel, const std::vector<Figure>& figures, const Rect& area) {
  const bool is_one_chosen = frame.state.shown_figure.contains(std::string(panel.kind->id)) &&
                             frame.state.shown_figure.at(std::string(panel.kind->id)) >= 0;
  const bool has_race = figures.size() > race_overviews;
  const double chips = frame.px(26);
  const auto columns =
      static_cast<double>((figures.size() - std::min(figures.size(), race_overviews)) / race_figures_of_a_layer);
  const bool has_room = area.height > frame.px(600) && area.width > frame.px(620);
  if (!has_race || !has_room || is_one_chosen) return draw_figure_grid(frame, panel, figures, area);
  draw_kind_chips(frame, *frame.seen().influence->race, {area.x, area.y, area.width - frame.px(8), chips});
  const Rect rest{area.x, area.y + chips, area.width, area.height - chips};
  if (area.width < columns * frame.px(120)) return draw_figure_grid(frame, panel, figures, rest);
  draw_race_columns(frame, figures, rest);
}

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
