// The switch between log-log axes, on which a power law is a straight line, and semi-log ones, on which an exponential
// is; the race with one column for each layer.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/figure/painting/painter.h"
#include "core/figure/readout.h"
#include "views/analyses/influence/influence_figures.h"
#include "views/figures/semantic_colours.h"
#include "views/panels/panel.h"
#include "views/widgets/plot_widget.h"
#include "views/widgets/sliders.h"

namespace afterglow {
namespace {

constexpr int usual_source = 8;
constexpr int few_directions = 4, all_directions = 1 << 16;  ///< number of random directions; the width or more: exact

double draw_scale_chip(Frame& frame, const Rect& row, const char* panel, const char* first_plot) {
  if (row.width < frame.px(150)) return row.right();
  const auto plot = frame.state.plots.find(first_plot);
  const bool is_semi_log =
      plot != frame.state.plots.end() && plot->second.x_scale.value_or(Scale::log) == Scale::linear;
  const std::string other = is_semi_log ? "log" : "linear";
  return command_chip(frame, {"axis_scale", {{"panel", panel}, {"axis", "x"}, {"scale", other}}}, "semi_log",
                      row.right(), row, is_semi_log ? "semi-log" : "log-log", is_semi_log,
                      "Switches the axis of the lag between linear and logarithmic  Shift X");
}

/// Kinds with fresh weights: those that the user added.
std::vector<std::string> racing(const RaceView& race) {
  std::vector<std::string> kinds;
  for (const RaceEntry& entry : race.entries) {
    if (entry.weights == "initial") kinds.push_back(entry.tail.kind);
  }
  return kinds;
}

/// A switch for every kind of layer: a click adds it to the race or removes it.
void draw_kind_chips(Frame& frame, const RaceView& race, const Rect& row) {
  const std::vector<std::string> now = racing(race);
  double right = row.right();
  for (auto kind = race.kinds.rbegin(); kind != race.kinds.rend() && right > row.x; ++kind) {
    const bool is_on = std::find(now.begin(), now.end(), *kind) != now.end();
    const ChipResult chip = header_chip(frame, kind->c_str(), right, row, *kind, is_on,
                                        is_on ? "Removes this layer from the race" : "Adds this layer to the race");
    right = chip.left;
    if (!chip.clicked) continue;
    nlohmann::json kinds = nlohmann::json::array();
    for (const std::string& other : race.kinds) {
      const bool was_on = std::find(now.begin(), now.end(), other) != now.end();
      if (was_on != (other == *kind)) kinds.push_back(other);
    }
    if (!kinds.empty()) frame.commands.send("influence", {{"race", {{"kinds", kinds}}}});
  }
}

/// Name, cost, reach and law of a layer, above its column.
constexpr double race_head_row = 15.2;

void draw_race_head(const Frame& frame, const RaceView& race, const RaceEntry& entry, const Rect& area) {
  FigureCanvas canvas = frame.look.canvas();
  const Theme& theme = *frame.look.theme;
  const std::vector<std::string> lines = race_head(race, entry);
  const double row = frame.px(race_head_row);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const bool is_name = i == 0;
    row_text(frame.look, canvas, {area.x, area.y + static_cast<double>(i) * row, area.width, row}, lines[i],
             {is_name ? small_size : tiny_size, is_name ? FontFace::semibold : FontFace::mono,
              is_name ? ink_color(theme, layer_ink(entry.tail.kind)) : theme.dim, Anchor::start, true});
  }
}

struct LegendEntry {
  const Line* line;
  std::string name;
  Rect box;
};

std::vector<LegendEntry> legend_entries(const Frame& frame, const Figure& figure, const Rect& area) {
  const FigureCanvas canvas = frame.look.canvas();
  const double height = frame.px(18), swatch = frame.px(26), gap = frame.px(16);
  std::vector<LegendEntry> entries;
  double x = area.x, y = area.y;
  for (const Series& series : figure.series) {
    const auto* line = std::get_if<Line>(&series);
    if (!line || line->is_quiet) continue;
    const std::string name(stem_of(line->name));
    const double width = swatch + canvas.text_width(name, frame.px(tiny_size), FontFace::regular);
    if (x + width > area.right() && x > area.x) {
      x = area.x;
      y += height;
    }
    entries.push_back({line, name, {x, y, width, height}});
    x += width + gap;
  }
  return entries;
}

/// Names and marks of all layers, once for all plots; a click hides a layer in the plots of all layers, or shows it
/// again. Returns the height used.
double draw_shared_legend(Frame& frame, const std::vector<Figure>& figures, const Rect& area) {
  FigureCanvas canvas = frame.look.canvas();
  const Theme& theme = *frame.look.theme;
  const std::vector<LegendEntry> entries = legend_entries(frame, figures.front(), area);
  for (const LegendEntry& entry : entries) {
    const bool is_hidden = frame.state.plots[figures.front().id].hidden.contains(entry.name);
    const Press press = press_area(("legend " + entry.name).c_str(), entry.box);
    const Color ink = faded(ink_color(theme, entry.line->ink), is_hidden ? 0.3 : 1);
    const double middle = entry.box.y + entry.box.height / 2, from = entry.box.x, to = entry.box.x + frame.px(20);
    const Point ends[] = {{from, middle}, {to, middle}};
    canvas.polyline(ends, {ink, frame.px(2), Dash::solid});
    draw_marker(canvas, entry.line->marker, {(from + to) / 2, middle}, frame.px(3), ink);
    row_text(frame.look, canvas, {to + frame.px(6), entry.box.y, area.width, entry.box.height}, entry.name,
             {tiny_size, FontFace::regular,
              is_hidden       ? theme.faint
              : press.hovered ? theme.text
                              : theme.dim,
              Anchor::start});
    if (press.hovered) hint_box(frame, entry.box, is_hidden ? "Click to show this layer" : "Click to hide this layer");
    if (!press.clicked) continue;
    for (const Figure& figure : std::span(figures).first(std::min(figures.size(), race_overviews))) {
      const bool has_it = std::ranges::any_of(
          figure.series, [&](const Series& series) { return stem_of(series_name(series)) == entry.name; });
      if (has_it) frame.commands.send("hide", {{"plot", figure.id}, {"series", entry.name}, {"on", !is_hidden}});
    }
  }
  return entries.empty() ? 0 : entries.back().box.bottom() - area.y + frame.px(4);
}

/// All plots of the race have the same curves in the same colours, so one legend above them is enough.
Figure without_legend(Figure figure) {
  figure.labels = LabelPlacement::none;
  return figure;
}

/// Names alone, because the legend's other texts are above each layer's column.
Figure with_short_names(Figure figure) {
  for (Series& series : figure.series) {
    if (auto* line = std::get_if<Line>(&series)) line->name = stem_of(line->name);
  }
  figure.subtitle = "influence as a share of that at lag 1";
  return figure;
}

/// The tails of all layers in half of the row; recall and cost next to them.
void draw_race_overviews(Frame& frame, const std::vector<Figure>& figures, const Rect& area) {
  const double gap = frame.px(4), wide = 0.5 * area.width, narrow = 0.25 * area.width;
  double x = area.x;
  for (std::size_t i = 0; i < race_overviews; ++i) {
    const double width = i == 0 ? wide : narrow;
    handle_response(frame, plot_widget(frame, without_legend(i == 0 ? with_short_names(figures[i]) : figures[i]),
                                       {x, area.y, width - gap, area.height - gap}));
    x += width;
  }
}

/// If columns do not fit: the tails at the top, recall and cost below.
void draw_small_race(Frame& frame, const std::vector<Figure>& figures, const Rect& area) {
  const double gap = frame.px(4), above = 0.58 * area.height, half = area.width / 2;
  handle_response(frame, plot_widget(frame, without_legend(with_short_names(figures[0])),
                                     {area.x, area.y, area.width - gap, above - gap}));
  for (std::size_t i = 1; i < race_overviews; ++i) {
    const Rect cell{area.x + static_cast<double>(i - 1) * half, area.y + above, half - gap, area.height - above - gap};
    handle_response(frame, plot_widget(frame, without_legend(figures[i]), cell));
  }
}

/// All layers at the top; below them a column for each with its head, state, tail and recall.
void draw_race_columns(Frame& frame, const std::vector<Figure>& figures, const Rect& area) {
  const RaceView& race = *frame.seen().race;
  std::size_t lines = 0;
  for (const RaceEntry& entry : race.entries) lines = std::max(lines, race_head(race, entry).size());
  const double gap = frame.px(4), top = 0.38 * area.height, head = frame.px(race_head_row) * static_cast<double>(lines);
  draw_race_overviews(frame, figures, {area.x, area.y, area.width, top});
  const std::size_t columns = (figures.size() - race_overviews) / race_figures_of_a_layer;
  const double width = area.width / static_cast<double>(columns);
  const double height = (area.height - top - head) / static_cast<double>(race_figures_of_a_layer);
  for (std::size_t i = 0; i < std::min(columns, race.entries.size()); ++i) {
    const double x = area.x + static_cast<double>(i) * width;
    draw_race_head(frame, race, race.entries[i], {x + frame.px(8), area.y + top, width - frame.px(12), head});
    for (std::size_t place = 0; place < race_figures_of_a_layer; ++place) {
      const Figure& figure = figures[race_overviews + i * race_figures_of_a_layer + place];
      plot_widget(frame, figure,
                  {x, area.y + top + head + static_cast<double>(place) * height, width - gap, height - gap},
                  {.shows_caption = false});
    }
  }
}

void draw_race(Frame& frame, const Panel& panel, const std::vector<Figure>& figures, const Rect& area) {
  const bool is_one_chosen = frame.state.figure_of(panel.kind->id) >= 0;
  const bool has_race = figures.size() > race_overviews;
  const double chips = frame.px(26);
  const auto columns =
      static_cast<double>((figures.size() - std::min(figures.size(), race_overviews)) / race_figures_of_a_layer);
  const bool has_room = area.height > frame.px(600) && area.width > frame.px(620);
  const bool is_small = area.height < frame.px(320) || area.width < frame.px(400);
  if (!has_race || is_small || is_one_chosen) return draw_figure_grid(frame, panel, figures, area);
  Rect rest = area;
  const auto take = [&](double height) {
    rest.y += height;
    rest.height -= height;
  };
  const bool has_columns = has_room && area.width >= columns * frame.px(120);
  if (has_room) {
    draw_kind_chips(frame, *frame.seen().race, {area.x, area.y, area.width - frame.px(8), chips});
    take(chips);
  }
  if (has_room && !has_columns) return draw_figure_grid(frame, panel, figures, rest);
  take(draw_shared_legend(frame, figures, {rest.x + frame.px(10), rest.y, rest.width - frame.px(20), rest.height}));
  has_columns ? draw_race_columns(frame, figures, rest) : draw_small_race(frame, figures, rest);
}

double draw_influence_controls(Frame& frame, const Rect& row) {
  const double left = draw_scale_chip(frame, row, "influence", "influence_blocks");
  const InfluenceView* view = frame.seen().influence.get();
  if (!view || view->sources.empty() || row.width < frame.px(560)) return left;
  const bool is_exact = view->directions == 0;
  const double exact =
      command_chip(frame, {"influence", {{"directions", is_exact ? few_directions : all_directions}}}, "exact", left,
                   row, "exact", is_exact,
                   is_exact ? "Estimates the norms from four random directions again"
                            : "Computes exact norms, one backward pass for every channel; takes longer");
  const bool is_one = view->sources.size() == 1;
  const std::string name = is_one ? "τ = " + std::to_string(view->sources.front()) : "mean of sources";
  const int token = frame.state.selection.token;
  const int one = std::min(token >= 0 ? token : usual_source, view->tokens - 2);
  return command_chip(frame, {"influence", {{"source", is_one ? -1 : one}}}, "source", exact, row, name, is_one,
                      is_one ? "Shows the mean over several source tokens again"
                             : "Follows one source token: the selected one, else token 8");
}

double draw_race_controls(Frame& frame, const Rect& row) { return draw_scale_chip(frame, row, "race", "race_tails"); }

double draw_routing_controls(Frame& frame, const Rect& row) {
  const RoutingView* routing = selected_routing(frame.seen(), frame.state.selection);
  if (!routing || !routing->feedback.empty() || routing->weights.size() < 2 || row.width < frame.px(190))
    return row.right();
  const int heads = static_cast<int>(routing->weights.size());
  return draw_head_chips(frame, row.right(), row, heads, std::min(frame.state.selection.head, heads - 1));
}

/// The numbers of theorem 12's network, in the command `influence` under "retrieval".
std::vector<Setting> retrieval_knobs(const RetrievalView& view) {
  return {
      {"beta", "Kernel exponent β", "", "The feedback's gain is 1 − β.", view.beta, 0.05, 0.95, 0.5, false, false},
      {"jumps", "Macro-layers k", "", "Number of layers that carry the signal on.", static_cast<double>(view.jumps), 1,
       4, 2, false, true},
      {"source", "Selected token τ*", "", "The token whose signal is kept.", static_cast<double>(view.source), 0,
       static_cast<double>(std::min(64, view.tokens - 4)), 4, false, true},
      {"leak", "Leak of the selector", "", "Share of every other signal that the selector lets through.", view.leak,
       1e-8, 1, 1e-4, true, false},
      {"freeze_step", "Step of the failed freeze", "", "The state of the other layer keeps the share e^−Δ per token.",
       view.freeze_step, 0.01, 2, 0.2, true, false}};
}

/// The sliders in rows above the plots, if they fit.
void draw_retrieval(Frame& frame, const Panel& panel, const std::vector<Figure>& figures, const Rect& area) {
  const RetrievalView* view = frame.seen().retrieval.get();
  if (!view || area.height < frame.px(260)) return draw_figure_grid(frame, panel, figures, area);
  const auto draw = [&](const Setting& knob, const Rect& place) {
    Setting own = knob;
    own.key = "retrieval." + knob.key;
    value_slider(frame, own, place, [&](double value, bool) {
      nlohmann::json number = value;
      if (knob.integer) number = static_cast<std::int64_t>(std::lround(value));
      frame.commands.send("influence", {{"retrieval", {{knob.key, number}}}});
    });
  };
  const double rows = draw_slider_rows(frame, retrieval_knobs(*view), 170, area, draw);
  if (rows == 0) return draw_figure_grid(frame, panel, figures, area);
  const double above = rows + frame.px(4);
  draw_figure_grid(frame, panel, figures, {area.x, area.y + above, area.width, area.height - above});
}

}  // namespace

std::vector<PanelDrawing> influence_drawings() {
  return {{"influence", draw_figure_grid, draw_influence_controls},
          {"race", draw_race, draw_race_controls},
          {"routing", draw_figure_grid, draw_routing_controls},
          {"selective_retrieval", draw_retrieval}};
}

}  // namespace afterglow
