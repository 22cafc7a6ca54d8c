// A panel: a plot with its place on the page. What is particular to one is drawn by its own file in panels/.
#pragma once
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "core/engine/recipe/recipe.h"
#include "views/frame.h"
#include "views/plot_widget.h"
#include "views/widgets.h"

namespace afterglow {

struct Panel {
  const PlotKind* kind;
  /// Draws the figures into `area`; every panel that needs nothing special uses draw_figure_grid.
  void (*draw)(Frame& frame, const Panel& panel, const std::vector<Figure>& figures, const Rect& area);
  /// Optional controls at the right end of the header, drawn leftwards from `row.right()`; returns where they end.
  double (*draw_controls)(Frame& frame, const Rect& row) = nullptr;
};

/// Every panel, in the order of `plot_kinds()`.
std::span<const Panel> panels();
/// By the id of its plot, or the former one; nullptr when there is no such panel.
const Panel* find_panel(std::string_view id);

/// As many figures as fit, side by side or stacked, or the one that was chosen in the header.
void draw_figure_grid(Frame& frame, const Panel& panel, const std::vector<Figure>& figures, const Rect& area);
/// The same; what the user did with each figure is handed on.
using FigureHandler = std::function<void(const Figure& figure, const PlotResponse& response)>;
void draw_handled_figures(Frame& frame, const Panel& panel, const std::vector<Figure>& figures, const Rect& area,
                          const FigureHandler& handler);
/// A sentence in the middle of an area, `below` of whose height is kept free under it; returns where its lines end.
double draw_sentence(const Frame& frame, std::string_view text, const Rect& area, double below = 0);
/// In the place of panels or figures: why there is nothing, and a button that opens a preset with something to show
/// (nullptr: none).
void draw_missing(Frame& frame, const Rect& area, std::string_view why, const Preset* preset);
/// The whole panel with frame, header and body. Sets PageState::hovered_panel.
void draw_panel(Frame& frame, const Panel& panel, const Rect& area);

/// A switch in a panel's header that ends at `right`; returns its left edge.
struct ChipResult {
  double left = 0;
  bool clicked = false;
};
ChipResult header_chip(const Frame& frame, const char* id, double right, const Rect& row, std::string_view label,
                       bool is_on, std::string_view hint = {}, Icon icon = Icon::none);

/// Clicks and hovers on a mode's dot: selects it, or shows what it stands for. A drag moves the mode of the probe's
/// operator, a right click switches it off or on.
struct PlotResponse;
void handle_mode_response(Frame& frame, const PlotResponse& response);
/// What follows `sort` in the id of a dot: 3 of "mode 3" for "mode "; -1 for every other id.
int number_of_dot(const std::string& id, std::string_view sort);
/// The same for dots of every kind: those of modes, and those of recorded steps, to which a click rewinds.
void handle_response(Frame& frame, const PlotResponse& response);

}  // namespace afterglow
