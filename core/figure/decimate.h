// Honest thinning of curves: first, lowest, highest and last point of every pixel column, so that no spike is ever
// lost.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/figure/axis.h"
#include "core/figure/canvas.h"
#include "core/figure/figure.h"

namespace afterglow {

/// What a stretch of a curve contains, enough to draw it in one pixel column. Indices are `none` when there is no such
/// point.
struct Summary {
  static constexpr std::size_t none = static_cast<std::size_t>(-1);
  std::size_t lowest = none;  ///< finite points only, the first of equals
  std::size_t highest = none;
  std::size_t lowest_positive = none;     ///< for log axes
  std::size_t first_flaw = none;          ///< NaN or infinite x or y
  std::size_t first_non_positive = none;  ///< finite, but <= 0: has no place on a log axis
};

/// Summary of the points [first, last) of two arrays, by looking at every one.
Summary summary_of(std::span<const double> x, std::span<const double> y, std::size_t first, std::size_t last);

/// A curve that grows at its end and always knows its extremes: drawing costs O(pixels), whatever its length. Points
/// live in sealed blocks that copies share, so that a copy of a million points costs microseconds and a few kilobytes:
/// the thread that appends hands out copies, and no thread waits. Not synchronised itself: append and copy on one
/// thread.
class CurvePyramid {
 public:
  CurvePyramid() = default;
  CurvePyramid(std::span<const double> x, std::span<const double> y) { append(x, y); }

  void append(double x, double y);
  void append(std::span<const double> x, std::span<const double> y);  ///< the shorter length counts

  std::size_t size() const { return sealed_.size() * block_size + tail_x_.size(); }
  double x(std::size_t i) const;
  double y(std::size_t i) const;
  bool is_sorted() const { return is_sorted_; }  ///< x never decreases and is never NaN
  /// Index of the first point with x >= value; size() when there is none. Needs `is_sorted()`.
  std::size_t first_not_below(double value) const;
  /// The same, for a value whose place is likely to be near `guess`.
  std::size_t first_not_below(double value, std::size_t guess) const;
  /// Points [first, last), in O(last - first) / 1024 + a constant.
  Summary summary(std::size_t first, std::size_t last) const;
  /// How many leading points are known to be those of `other` too, because both share their storage.
  std::size_t shared_points(const CurvePyramid& other) const;
  const Extent& x_extent() const { return x_extent_; }
  const Extent& y_extent() const { return y_extent_; }

  static constexpr std::size_t block_size = 1024;
  static constexpr std::size_t run_size = 32;

 private:
  struct Block;
  void seal();
  /// The boundary between values below and not below within [low, high).
  std::size_t bisected(double value, std::size_t low, std::size_t high) const;

  std::vector<std::shared_ptr<const Block>> sealed_;
  std::vector<double> tail_x_, tail_y_;
  Extent x_extent_, y_extent_;
  bool is_sorted_ = true;
};

/// One way to read a curve, whatever holds its points. Does not own them: the curve must outlive the view.
class CurveView {
 public:
  explicit CurveView(const Curve& curve);
  CurveView(std::span<const double> x, std::span<const double> y);

  std::size_t size() const { return size_; }
  double x(std::size_t i) const { return pyramid_ ? pyramid_->x(i) : x_[i]; }
  double y(std::size_t i) const { return pyramid_ ? pyramid_->y(i) : y_[i]; }
  bool is_sorted() const { return is_sorted_; }
  std::size_t first_not_below(double value) const;
  std::size_t first_not_below(double value, std::size_t guess) const;  ///< quick where the guess is near
  Summary summary(std::size_t first, std::size_t last) const;          ///< of points [first, last)
  Extent x_extent() const;                                             ///< of the points whose y is finite
  Extent y_extent() const;                                             ///< of the points whose x is finite

 private:
  const CurvePyramid* pyramid_ = nullptr;
  std::span<const double> x_, y_;
  std::size_t size_ = 0;
  bool is_sorted_ = true;
};

enum class Flaw {
  not_a_number,
  above,   ///< +infinity
  below,   ///< -infinity
  off_log  ///< <= 0 where the axis is logarithmic
};

/// A value that has no place on the canvas, at the x where it happened.
struct FlawMark {
  Point place;  ///< NaN: at the height of the last good value; the others: at the edge of the plot
  Flaw flaw;
};

/// A curve in canvas units, cut into pieces at its gaps and at the edges of the plot (with some air, so that joins and
/// line ends stay out of sight). A piece of one point is a value between two gaps: draw a dot.
struct CanvasCurve {
  std::vector<Point> points;
  std::vector<std::size_t> starts;  ///< index of the first point of each piece
  std::vector<FlawMark> flaws;      ///< of each kind at most one every 4 canvas units

  std::size_t pieces() const { return starts.size(); }
  std::span<const Point> piece(std::size_t i) const;
};

/// The points [first, last) of a curve that share a column of the canvas, and what they contain.
struct CurveColumn {
  std::size_t first = 0, last = 0;
  Summary summary;
};

/// The visible part of a curve in columns of `column` canvas units; where a column holds hundreds of points its edge
/// may lie an eighth of a column beside. `known`: leading columns of the same curve and axis that need no second look.
std::vector<CurveColumn> curve_columns(const CurveView& curve, const AxisTransform& x, double column,
                                       std::vector<CurveColumn> known = {});
/// Where the placing of a curve stood after some of its columns, so that it can go on from there.
struct PlacingState {
  std::size_t columns = 0;                        ///< that were placed; 0: nothing yet
  std::size_t points = 0, starts = 0, flaws = 0;  ///< what the picture held then
  Point last, last_place;
  bool has_last = false, pending_single = false, open = false, has_last_place = false;
  std::array<double, 4> last_flaw_x = {-1e300, -1e300, -1e300, -1e300};
};
/// First, lowest, highest and last point of every column in their places. Goes on from `state`, which belongs to
/// `begun`, and leaves there how it stood after the first `settled` columns.
CanvasCurve placed_columns(const CurveView& curve, std::span<const CurveColumn> columns, const AxisTransform& x,
                           const AxisTransform& y, CanvasCurve begun, PlacingState& state, std::size_t settled);
/// Both: thins the visible part of a curve. The transforms say where the plot is.
CanvasCurve thinned_curve(const CurveView& curve, const AxisTransform& x, const AxisTransform& y, double column);

}  // namespace afterglow
