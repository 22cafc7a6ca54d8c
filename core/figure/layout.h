// Where the plot, its ticks and its margins go, before anything is drawn.
#pragma once
#include <string>
#include <vector>

#include "core/figure/axis.h"
#include "core/figure/canvas.h"
#include "core/figure/render.h"

namespace afterglow {

/// The visible range of both axes of a figure.
struct FigureRanges {
  Axis x_axis, y_axis;    ///< with the scale that the view shows
  Extent x_data, y_data;  ///< of all series, also hidden ones, so that hiding one does not move the axes
  Range x, y;
  bool has_heat_map = false;
};

FigureRanges figure_ranges(const Figure& figure, const FigureView& view);

/// The axis with the scale of the view.
Axis shown_axis(const Axis& axis, const std::optional<Scale>& scale);

/// Sizes that follow from the text size and the theme, in canvas units.
struct Measures {
  double text;   ///< tick labels, curve labels
  double small;  ///< notes inside the plot
  double title;
  double unit;  ///< one "pixel at text size 12"
  double line;  ///< factor on stroke widths
  double gap;   ///< between neighbours
  Measures(const Theme& theme, const FigureView& view);
};

/// Room for labels around the plot.
struct LabelRoom {
  double right = 0;
  double top = 0;
};

struct ColorBarLayout {
  std::size_t series = 0;
  Rect bar;
  AxisTransform values;  ///< from the bottom to the top of the bar
  std::vector<Tick> ticks;
  double title_x = 0;        ///< baseline of the rotated title
  bool shows_flaws = false;  ///< non-finite cells: a swatch below the bar explains their colour
};

struct TextLine {
  std::string text;
  Point place;
  bool is_subtitle = false;
};

struct FigureLayout {
  Rect area;
  Rect plot;
  AxisTransform x, y;
  std::vector<Tick> x_ticks, y_ticks;
  std::vector<TextLine> titles;
  double x_title_y = 0;  ///< baselines of the axis titles
  double y_title_x = 0;
  double top_of_legend = 0;
  bool has_heat_map = false;
  bool has_legend_above = false;
  bool is_bare = false;  ///< too small for any text outside the plot
  std::vector<ColorBarLayout> color_bars;
};

/// Whether the view shows this series.
bool is_shown(const Series& series, const FigureView& view);

/// The colour range of a heat map: from the view, else its fixed one, else fitted to its finite cells.
Range color_range(const HeatMap& map, const FigureView& view);
/// From the values of a heat map, over its colour range, to places from `from` to `to`.
AxisTransform color_transform(const HeatMap& map, const FigureView& view, double from, double to);

/// Whether the map has rows * cols cells.
bool is_complete(const HeatMap& map);

FigureLayout lay_out(const Figure& figure, const Theme& theme, const FigureView& view, const Rect& area,
                     const LabelRoom& room, const Canvas& canvas);

}  // namespace afterglow
