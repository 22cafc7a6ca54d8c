// Thinning of curves without losing a spike: first, lowest, highest and last point of every pixel column.
#pragma once
#include <array>
#include <cstddef>
#include <list>
#include <memory>
#include <span>
#include <vector>

#include "core/figure/axis.h"
#include "core/figure/canvas.h"
#include "core/figure/figure.h"

namespace afterglow {

/// The points of a range that one pixel column draws. Indices are `none` when there is no such point.
struct Summary {
  static constexpr std::size_t none = static_cast<std::size_t>(-1);
  std::size_t lowest = none;  ///< finite points only, the first of equals
  std::size_t highest = none;
  std::size_t lowest_positive = none;     ///< for log axes
  std::size_t first_flaw = none;          ///< NaN or infinite x or y
  std::size_t first_non_positive = none;  ///< finite, but <= 0: undefined on a log axis
};

/// Summary of the points [first, last) of two arrays; reads every point.
Summary summary_of(std::span<const double> x, std::span<const double> y, std::size_t first, std::size_t last);

/// A curve that grows at its end and stores the extremes of its blocks, so that drawing costs O(pixels) at any length.
/// Copies share the sealed blocks of points: a copy of a million points costs microseconds and a few kilobytes. The
/// thread that appends gives copies to others, without a lock. Not synchronised: append and copy on one thread.
class CurvePyramid {
 public:
  CurvePyramid() = default;
  CurvePyramid(std::span<const double> x, std::span<const double> y) { append(x, y); }

  void append(double x, double y);
  void append(std::span<const double> x, std::span<const double> y);  ///< as many as the shorter has

  std::size_t size() const { return sealed_.size() * block_size + tail_x_.size(); }
  double x(std::size_t i) const;
  double y(std::size_t i) const;
  bool is_sorted() const { return is_sorted_; }  ///< x never decreases and is never NaN
  /// Index of the first point with x >= value; size() when there is no such point. Needs `is_sorted()`.
  std::size_t first_not_below(double value) const;
  /// The same; fast where the index is near `guess`.
  std::size_t first_not_below(double value, std::size_t guess) const;
  /// Of the points [first, last), in O((last - first) / 1024) plus a constant.
  Summary summary(std::size_t first, std::size_t last) const;
  /// How many leading points are those of `other`, too, because both share their storage.
  std::size_t shared_points(const CurvePyramid& other) const;
  const Extent& x_extent() const { return x_extent_; }
  const Extent& y_extent() const { return y_extent_; }

  static constexpr std::size_t block_size = 1024;
  static constexpr std::size_t run_size = 32;

 private:
  struct Block;
  void seal();
  /// The first index within [low, high) whose x is not below `value`.
  std::size_t bisected(double value, std::size_t low, std::size_t high) const;

  std::vector<std::shared_ptr<const Block>> sealed_;
  std::vector<double> tail_x_, tail_y_;
  Extent x_extent_, y_extent_;
  bool is_sorted_ = true;
};

/// Reads a curve of arrays or of a pyramid. It does not own the points: the curve must outlive the view.
class CurveView {
 public:
  explicit CurveView(const Curve& curve);
  CurveView(std::span<const double> x, std::span<const double> y);

  std::size_t size() const { return size_; }
  double x(std::size_t i) const { return pyramid_ ? pyramid_->x(i) : x_[i]; }
  double y(std::size_t i) const { return pyramid_ ? pyramid_->y(i) : y_[i]; }
  bool is_sorted() const { return is_sorted_; }
  std::size_t first_not_below(double value) const;
  std::size_t first_not_below(double value, std::size_t guess) const;  ///< fast where the guess is near
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

/// Marks a value that cannot be drawn, at its x.
struct FlawMark {
  Point place;  ///< NaN: at the height of the last good value; the others: at the edge of the plot
  Flaw flaw;
};

/// A curve in canvas units, cut into pieces at its gaps and somewhat outside of the plot (so that joins and line ends
/// are clipped). A piece of one point is a value between two gaps: draw a dot.
struct CanvasCurve {
  std::vector<Point> points;
  std::vector<std::size_t> starts;  ///< index of the first point of each piece
  std::vector<FlawMark> flaws;      ///< at most one of each kind per 4 canvas units

  std::size_t pieces() const { return starts.size(); }
  std::span<const Point> piece(std::size_t i) const;
};

/// The points [first, last) of a curve that share a column of the canvas, and what they contain.
struct CurveColumn {
  std::size_t first = 0, last = 0;
  Summary summary;
};

/// The visible part of a curve in columns of `column` canvas units; where a column holds hundreds of points its edge
/// may be off by an eighth of a column. `known`: leading columns of the same curve and axis that are taken over.
std::vector<CurveColumn> curve_columns(const CurveView& curve, const AxisTransform& x, double column,
                                       std::vector<CurveColumn> known = {});
/// State of `placed_columns` after some columns, from which a later call continues.
struct PlacingState {
  std::size_t columns = 0;                        ///< columns placed so far
  std::size_t points = 0, starts = 0, flaws = 0;  ///< sizes of the picture at that moment
  Point last, last_place;
  bool has_last = false, pending_single = false, open = false, has_last_place = false;
  std::array<double, 4> last_flaw_x = {-1e300, -1e300, -1e300, -1e300};
};
/// First, lowest, highest and last point of every column on the canvas. Continues `begun` from `state`, and sets
/// `state` to that after the first `settled` columns.
CanvasCurve placed_columns(const CurveView& curve, std::span<const CurveColumn> columns, const AxisTransform& x,
                           const AxisTransform& y, CanvasCurve begun, PlacingState& state, std::size_t settled);
/// Both steps: thins the visible part of a curve. The transforms define the plot.
CanvasCurve thinned_curve(const CurveView& curve, const AxisTransform& x, const AxisTransform& y, double column);

/// Caches the thinned curves of a plot between drawings, so that a frame without new data thins nothing and one with
/// new data thins only the new end. The result is always that of `thinned_curve`.
class ThinnedCurves {
 public:
  /// Call before each drawing: removes curves that the last drawing did not use.
  void begin_drawing();
  /// The curve of this series on these axes, valid until the next drawing begins.
  std::shared_ptr<const CanvasCurve> get(std::size_t series, const Curve& curve, const AxisTransform& x,
                                         const AxisTransform& y, double column);
  std::size_t size() const { return kept_.size(); }

 private:
  struct Kept {
    std::size_t series;
    std::shared_ptr<const CurvePyramid> pyramid;
    AxisTransform x, y;
    double column;
    bool was_asked_for;
    std::vector<CurveColumn> columns;
    std::shared_ptr<const CanvasCurve> picture;
    PlacingState settled;  ///< state after the columns that new points do not change
  };
  struct Known {
    const Kept* kept = nullptr;
    std::size_t columns = 0;
  };
  Known known_columns(std::size_t series, const CurvePyramid& pyramid, const AxisTransform& x, const AxisTransform& y,
                      double column) const;
  std::list<Kept> kept_;
};

}  // namespace afterglow
