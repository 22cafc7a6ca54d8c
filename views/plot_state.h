// The view of a plot: zoom, scales, hidden series, measuring cursors. Only the user changes it.
#pragma once
#include <optional>
#include <set>
#include <string>

#include "core/figure/render.h"
#include "core/figure/thinned_curves.h"

namespace afterglow {

/// What undo takes back.
struct PlotView {
  std::optional<Range> x, y;              ///< zoomed ranges; empty: all data, also new ones
  std::optional<Scale> x_scale, y_scale;  ///< chosen scales
  std::set<std::string> hidden;           ///< stems of the names of series (stem_of)
  bool operator==(const PlotView&) const = default;
};

struct PlotState : PlotView {
  std::optional<double> mark_a, mark_b;  ///< measuring cursors in data units
  std::optional<Range> colours;          ///< locked colours of its heat maps
  ThinnedCurves thinned;                 ///< of the last frame

  /// True while the plot shows all data and follows new ones.
  bool follows() const { return !x && !y; }
  void fit() { x = y = std::nullopt; }
};

/// Which axes a gesture moves: both over the plot, one over an axis.
struct AxisChoice {
  bool x = true, y = true;
};

/// Moves the view with the pointer by (dx, dy) canvas units.
void pan(PlotState& state, const FigureGeometry& geometry, double dx, double dy);
/// Makes the visible range `factor` times as large, keeping what is at `place`. Refuses ranges that overflow or whose
/// ends floating point cannot distinguish.
void zoom_at(PlotState& state, const FigureGeometry& geometry, Point place, double factor, AxisChoice axes);
/// Zooms to the box. Ignores boxes smaller than a few pixels.
void zoom_to_box(PlotState& state, const FigureGeometry& geometry, Point from, Point to);
/// The scale after this one: linear, log, symlog, linear.
Scale next_scale(Scale scale);
/// Switches the scale of an axis and fits it again, because a range of one scale means nothing on another.
void set_scale(PlotState& state, char axis, Scale scale);
/// Sets A, then B, then clears both.
void place_cursor(PlotState& state, double x);
/// Sets or moves cursor 'a' or 'b' alone; a B without an A becomes the A.
void move_cursor(PlotState& state, char which, double x);
/// The cursor whose line is within `reach` canvas units of this place of the x axis; 0: none.
char cursor_near(const PlotState& state, const FigureGeometry& geometry, double canvas_x, double reach);

/// The view with which the figure is rendered.
FigureView view_of(const PlotState& state, double text_size);

}  // namespace afterglow
