// Drawing code of single panels; one file each, which names its plots.
#pragma once
#include <string_view>

#include "views/panels/panel.h"
#include "views/plots/registered.h"

namespace afterglow {

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

/// Switches "0 1 2 .." for the heads of the selected layer, drawn leftwards from `right`; returns their left edge.
double draw_head_chips(Frame& frame, double right, const Rect& row, int heads, int chosen);

}  // namespace afterglow
