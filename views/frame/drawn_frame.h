// What a frame records while it is drawn, for keys, commands and the next frame; forgotten when the next one begins.
#pragma once
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/figure/canvas.h"
#include "views/figures/plot_reading.h"

namespace afterglow {

/// The pointer's place on an axis, shown in every plot with the same axis.
struct Crosshair {
  std::string axis;  ///< label of the x axis; empty: nowhere
  std::string plot;  ///< id of the figure under the pointer
  double x = 0;
};

/// The readings of a plot at the crosshair. All readings of a frame share one box next to the pointer.
struct CrosshairReading {
  std::string title;
  std::vector<ReadingLine> lines;  ///< the first one is the place
  bool is_first = false;           ///< from the plot under the pointer, or from the one that the keys read
  Point beside;
};

/// What the pointer is over, and what it has done.
struct PointerFrame {
  std::string panel, plot;  ///< under the pointer
  Crosshair crosshair;      ///< shown in the next frame
  std::vector<CrosshairReading> readings;
  std::optional<Rect> reading;        ///< box of values next to the pointer, on top of everything
  std::vector<Rect> measured;         ///< boxes of the measuring cursors, which the reading avoids
  bool right_click_is_taken = false;  ///< by a dot or a plot
  bool wheel_is_taken = false;        ///< by a slider
};

/// A plot of the last frame, for keyboard commands.
struct ShownPlot {
  std::string panel, plot;
  Rect area;   ///< with its axes
  Rect frame;  ///< within its axes
  Range x, y;  ///< visible ranges
  Scale x_scale = Scale::linear, y_scale = Scale::linear;
  std::string x_label;
  bool has_lines = false;
  std::optional<Range> colours;  ///< of its first heat map
};
struct ShownPanel {
  std::string panel;
  Rect area;
};
/// A row of panels of the last frame; `name` is that of its shares in PageState::splits.
struct ShownRow {
  std::string name;
  std::vector<double> shares;                               ///< of its columns
  std::vector<std::pair<std::string, std::size_t>> panels;  ///< each with its column
};

struct DrawnFrame {
  std::vector<ShownPanel> panels;  ///< in reading order; also the next two
  std::vector<ShownPlot> plots;
  std::vector<ShownRow> rows;
  std::string rows_name;           ///< name of the shares of those rows in `splits`
  std::vector<double> row_shares;  ///< of the page's height
  std::vector<std::string> sliders;
  std::string panel;           ///< the panel being drawn
  bool interventions = false;  ///< the side column shows their effect
};

}  // namespace afterglow
