// Draws a figure on a canvas and returns the positions of what was drawn.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "core/figure/axis.h"
#include "core/figure/canvas.h"
#include "core/figure/figure.h"

namespace afterglow {

class ThinnedCurves;  // core/figure/decimate.h

/// A view of a figure, which stays unchanged: zoom, scale, hidden and stressed series, cursors.
struct FigureView {
  std::optional<Range> x{}, y{};              ///< visible range; otherwise the figure's own or fitted one
  std::optional<Scale> x_scale{}, y_scale{};  ///< shown instead of the figure's scale
  std::vector<std::string> hidden{};          ///< names of series that are not drawn (fitted ranges still count them)
  std::string hovered{};                      ///< name of a series or id of a point; everything else is fainter
  std::string selected{};                     ///< likewise; a selected point gets a ring
  std::optional<double> cursor_x{};           ///< crosshair in data units, with a dot on every curve
  std::optional<double> mark_a{}, mark_b{};   ///< the two measuring cursors
  std::optional<Range> colours{};             ///< of heat maps; otherwise the figure's own or fitted one
  int legend_rows = 0;                        ///< most rows of a legend above the plot; 0: as many as leave room
  bool is_bare = false;                       ///< the plot takes the whole area, without axes and their numbers
  bool show_title = false;                    ///< files: yes; the window writes titles on the panel itself
  double text_size = 12;                      ///< in canvas units; widths and radii grow with it
  ThinnedCurves* thinned = nullptr;           ///< optional cache of a caller that draws repeatedly; it changes no pixel
};

/// A text in the legend or at a curve that stands for a series: hover and click targets.
struct SeriesLabel {
  std::size_t series = 0;
  Rect rect{};
};

/// A dot as drawn.
struct DrawnPoint {
  std::size_t series = 0;
  std::size_t point = 0;
  Point place{};
  double radius = 0;
};

/// The colour bar of a heat map as drawn.
struct DrawnColorBar {
  std::size_t series = 0;
  Rect rect{};
  Range range{};  ///< values at the two ends
};

/// Positions of all parts in canvas units, and the transforms between data and canvas.
struct FigureGeometry {
  Rect area{};
  Rect plot{};
  AxisTransform x{}, y{};
  std::vector<SeriesLabel> labels{};
  std::vector<DrawnPoint> points{};
  std::vector<DrawnColorBar> color_bars{};

  Point to_canvas(double data_x, double data_y) const { return {x.to_canvas(data_x), y.to_canvas(data_y)}; }
  /// The dot within `reach` canvas units of its rim that is nearest to `place`.
  std::optional<DrawnPoint> point_at(Point place, double reach = 4) const;
  std::optional<std::size_t> label_at(Point place) const;  ///< index of the series
};

/// Draws the whole figure into `area` and nothing outside of it. Accepts any figure: empty, one point, NaN, huge,
/// missing arrays. Labels are placed so that none is cut. An area smaller than a few characters gets a bare plot.
FigureGeometry render_figure(const Figure& figure, const Theme& theme, const FigureView& view, Rect area,
                             Canvas& canvas);

}  // namespace afterglow
