// A panel: a plot with its place on the page. Files in panels/ draw what is particular to one.
#pragma once
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/recipe/recipe.h"
#include "views/frame/frame.h"
#include "views/plots/registered.h"
#include "views/widgets/plot_widget.h"
#include "views/widgets/widgets.h"

namespace afterglow {

struct Panel {
  const PlotKind* kind;
  /// Draws the figures into `area`; every panel without special needs uses draw_figure_grid.
  void (*draw)(Frame& frame, const Panel& panel, const std::vector<Figure>& figures, const Rect& area);
  /// Optional controls at the right end of the header, drawn leftwards from `row.right()`; returns their left edge.
  double (*draw_controls)(Frame& frame, const Rect& row) = nullptr;
};

/// Every panel, in the order of `plot_kinds()`.
std::span<const Panel> panels();
/// By the id of its plot, or the former id; nullptr if there is no such panel.
const Panel* find_panel(std::string_view id);

/// As many figures as fit, next to or below each other, or the one that was chosen in the header.
void draw_figure_grid(Frame& frame, const Panel& panel, const std::vector<Figure>& figures, const Rect& area);
/// The same; calls `handler` with the user's actions on each figure.
using FigureHandler = std::function<void(const Figure& figure, const PlotResponse& response)>;
void draw_handled_figures(Frame& frame, const Panel& panel, const std::vector<Figure>& figures, const Rect& area,
                          const FigureHandler& handler);
/// A figure that the header or an axis names; carries out what the user does to its dots.
PlotResponse draw_plot(Frame& frame, const Figure& figure, const Rect& area);
/// A sentence in the middle of an area, with `below` of its height free under it; returns the lower end of its lines.
double draw_sentence(const Frame& frame, std::string_view text, const Rect& area, double below = 0);
/// The sentence with a button below it; returns whether it was clicked.
bool draw_offer(const Frame& frame, std::string_view text, const Rect& area, std::string_view label,
                std::string_view hint);
/// Instead of panels or figures: the reason, and a button that opens a suitable preset (nullptr: none).
void draw_missing(Frame& frame, const Rect& area, std::string_view why, const Preset* preset);
/// The whole panel with frame, header and body. Sets PointerFrame::panel.
void draw_panel(Frame& frame, const Panel& panel, const Rect& area);

/// A switch in a panel's header that ends at `right`; returns its left edge.
struct ChipResult {
  double left = 0;
  bool clicked = false;
};
ChipResult header_chip(const Frame& frame, const char* id, double right, const Rect& row, std::string_view label,
                       bool is_on, std::string_view hint = {}, Icon icon = Icon::none);
/// A button, or a switch, that ends at `right` and sends a command when it is clicked; returns its left edge.
double command_button(const Frame& frame, double right, const Rect& row, const Command& command, std::string_view label,
                      Icon icon, ButtonKind kind, std::string_view hint);
double command_chip(const Frame& frame, const Command& command, const char* id, double right, const Rect& row,
                    std::string_view label, bool is_on, std::string_view hint = {}, Icon icon = Icon::none);

/// Clicks and hovers on a mode's dot: selects it, or shows its numbers. A drag moves the mode, a right click switches
/// it off or on.
void handle_mode_response(Frame& frame, const PlotResponse& response);
/// The same for dots of every kind: modes, and recorded steps, to which a click rewinds.
void handle_response(Frame& frame, const PlotResponse& response);

/// Draws the panel of a plot that needs more than the usual grid.
struct PanelDrawing {
  std::string_view plot;  ///< id of the plot
  void (*draw)(Frame& frame, const Panel& panel, const std::vector<Figure>& figures, const Rect& area);
  double (*draw_controls)(Frame& frame, const Rect& row) = nullptr;  ///< see Panel
};

/// The field for a prompt and the chip that lets the model write on, at the top of a panel's area; returns the area
/// below them, all of it for a model without a tokenizer.
Rect draw_prompt_row(Frame& frame, const Rect& area);

/// Sliders of at least this width in layout units, in rows at the top of an area, one row in a low one; returns their
/// height, or 0 if fewer than two fit next to each other.
double draw_slider_rows(const Frame& frame, const std::vector<Setting>& knobs, double min_width, const Rect& area,
                        const std::function<void(const Setting& knob, const Rect& place)>& draw);

/// "fit weights" at the right end of the row if the user has moved eigenvalues; returns its left edge.
double draw_surgery_chip(Frame& frame, double right, const Rect& row);

/// The next page of the ablation's list of parts, as `show`'s figure; the first one after the last.
int next_ablation_page(const PageState& state);

/// Switches "0 1 2 .." for the heads of the selected layer, of many for those next to the chosen one, drawn leftwards
/// from `right`; returns their left edge. A click on the chosen head of layer `switched` switches it off or on.
double draw_head_chips(Frame& frame, double right, const Rect& row, int heads, int chosen, int switched = -1);

/// The longest of the analyses behind the plot; nullptr if each takes at most some seconds.
const AnalysisWork* long_work(const PlotKind& kind, const Observation& observation);
/// Instead of figures: "All of it takes about 17 h."; empty if no analysis is slow.
std::string long_work_sentence(const PlotKind& kind, const Observation& observation);
/// The share of the work that takes this many seconds more, as a round number.
double larger_part(const AnalysisWork& work, double seconds);

/// A row at the lower end of `area` if only a part is computed; returns its height.
double draw_work_offer(Frame& frame, const PlotKind& kind, const Rect& area);

}  // namespace afterglow
