// A figure that one can touch: pan, zoom, fit, switch scales, hide series, read values, measure between two cursors.
#pragma once
#include <string>

#include "views/frame.h"

namespace afterglow {

struct PlotOptions {
  double text_size = 11;      ///< layout units
  bool shows_caption = true;  ///< title and subtitle of the figure above the plot
  bool moves_points = false;  ///< a drag that begins on a dot moves the dot instead of the view
};

/// What happened on the plot in this frame.
struct PlotResponse {
  bool hovered = false;
  std::string clicked_point;  ///< id of the dot that was clicked: "mode 3"
  std::string hovered_point;
  std::string moved_point;  ///< id of the dot that is being dragged, with `moves_points`
  double moved_to = 0;      ///< where to, in units of the y axis
  Point beside;             ///< where a readout of the hovered point may go
};

/// Draws the figure into `area` of the current Dear ImGui window and changes its PlotState as the user asks:
/// drag pans, the wheel zooms at the pointer (over an axis: that axis), right or Shift drag zooms to a box, double
/// click fits, Ctrl click sets a measuring cursor, a click on a name hides its series. New data never change a zoom.
PlotResponse plot_widget(Frame& frame, const Figure& figure, const Rect& area, const PlotOptions& options = {});

/// Where a hidden series waits to be clicked again: its name in the lower left corner of the plot.
struct HiddenLabel {
  std::string name;
  Rect rect;
};
std::vector<HiddenLabel> hidden_labels(const Frame& frame, const FigureGeometry& geometry, const PlotState& state);

}  // namespace afterglow
