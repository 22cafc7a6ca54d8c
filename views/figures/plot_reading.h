// The view of a plot (zoom, scales, hidden series, measuring cursors), which only the user changes, and readings of the
// pointer and the two cursors as text: the numbers are those of the data.
#pragma once
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/figure/decimate.h"
#include "core/figure/readout.h"
#include "core/figure/render.h"

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

struct ReadingLine {
  std::string name;
  std::string value;
  Ink ink = Role::dim;
  bool is_heading = false;
};

/// The abscissa, then the value of every visible curve there, at most sixteen: those nearest to `y` if the pointer
/// gives one, else the first. Empty if there is no curve.
std::vector<ReadingLine> values_at(const Figure& figure, const FigureView& view, double x,
                                   std::optional<double> y = std::nullopt);

/// The cell of the first heat map at a place in data units, with the names of its row and column; empty outside of the
/// map.
std::vector<ReadingLine> cell_at(const Figure& figure, double x, double y);

std::vector<ReadingLine> point_lines(const Figure& figure, const DrawnPoint& point);

/// Readings of several plots as one list: the first plot's, then additional ones of others, while they fit. A plot of
/// one curve takes one line.
struct PlotReading {
  std::string title;
  std::vector<ReadingLine> lines;
};
std::vector<ReadingLine> joined_readings(const PlotReading& first, const std::vector<PlotReading>& others);

/// The change of a curve between the cursors.
struct Measurement {
  std::string name;
  Ink ink = Role::dim;
  double at_a = 0, at_b = 0;
  double difference = 0, ratio = 0;  ///< B - A and B / A
  double slope = 0;  ///< least squares of all points between, in the units of the axes as shown (decades on log axes)
  double error = 0;  ///< half the 95 % interval of the slope, for independent residuals; infinite for two points
  std::string law;   ///< in words: "slope 0.02", "power law, exponent −0.98 ± 0.02", "half-life 41 ± 3 tokens"
};
/// One for every visible line that is not quiet. Needs both cursors; ignores points that the scales cannot show.
std::vector<Measurement> measure(const Figure& figure, const FigureView& view);

/// The place where a box of this size hides least of the plot: names and curves. Below the tags of the cursors.
Rect free_place(const Figure& figure, const FigureGeometry& geometry, Point size, double air);

/// The places of the cursors and their distance, then a line for each of the first measurements.
std::vector<ReadingLine> measurement_lines(const Figure& figure, const FigureView& view);

}  // namespace afterglow
