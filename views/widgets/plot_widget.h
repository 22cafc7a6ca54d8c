// An interactive figure: pan, zoom, fit, switch scales, hide series, read values, measure between two cursors.
#pragma once
#include <optional>
#include <string>

#include "views/frame/frame.h"

namespace afterglow {

struct PlotOptions {
  double text_size = 11;      ///< layout units
  bool shows_caption = true;  ///< title and subtitle of the figure above the plot
  bool moves_points = false;  ///< dots can be dragged; elsewhere a drag pans as usual
};

/// Events on the plot in this frame.
struct PlotResponse {
  bool hovered = false;
  std::optional<Point> place;    ///< the pointer, in data units, if it is inside of the axes
  std::optional<Point> clicked;  ///< the same, for a click on nothing else
  std::string clicked_point;     ///< id of the dot that was clicked: "mode 3"
  std::string hovered_point;
  /// The modes of the dots that were clicked, hovered over, or clicked with the right button.
  DotMode clicked_mode, hovered_mode, switched_mode;
  /// The dragged dot, its target in data units, and whether the drag ended in this frame.
  struct Drag {
    std::string point;
    DotMode mode;
    double x = 0, y = 0;
    bool is_over = false;
  };
  std::optional<Drag> drag;
  Point beside;                          ///< place for a readout of the hovered point
  std::vector<ReadingLine> point_lines;  ///< name and place of the hovered point
};

/// Draws the figure into `area` of the current Dear ImGui window and changes its PlotState: a drag pans, the wheel
/// zooms at the pointer (over an axis: that axis), a right or Shift drag zooms to a box, a double click fits, a Ctrl
/// click sets a measuring cursor, a drag on one moves it, a click on a name hides its series, a right click outside of
/// the dots opens the menu. New data never change a zoom.
PlotResponse plot_widget(Frame& frame, const Figure& figure, const Rect& area, const PlotOptions& options = {});

/// The place of a hidden series' name, which shows it again: in the lower left corner of the plot.
struct HiddenLabel {
  std::string name;
  Rect rect;
};
std::vector<HiddenLabel> hidden_labels(const Frame& frame, const FigureGeometry& geometry, const PlotState& state);

}  // namespace afterglow
