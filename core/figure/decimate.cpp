// Thins a curve of any length to the points that its picture needs.
#include "core/figure/decimate.h"

#include <algorithm>
#include <cmath>

namespace afterglow {
namespace {

constexpr double air = 40;          // canvas units outside of the plot at which curves are cut
constexpr double flaw_spacing = 4;  // canvas units between two marks of one kind
constexpr double far_away = 1e7;    // larger than any canvas, small enough for exact intersections

struct Box {
  double left, top, right, bottom;
};

// Clips segments to the box and appends the remainder to pieces (Liang and Barsky).
class PieceBuilder {
 public:
  PieceBuilder(CanvasCurve& out, PlacingState& now, const Box& box) : out_(out), now_(now), box_(box) {}

  void add(Point p) {
    p = {std::clamp(p.x, -far_away, far_away), std::clamp(p.y, -far_away, far_away)};
    if (now_.has_last) {
      segment(now_.last, p);
    } else {
      now_.pending_single = inside(p);
    }
    now_.last = p;
    now_.has_last = true;
  }

  void gap() {
    if (now_.has_last && now_.pending_single) start(now_.last);
    now_.has_last = now_.pending_single = now_.open = false;
  }

 private:
  bool inside(Point p) const { return p.x >= box_.left && p.x <= box_.right && p.y >= box_.top && p.y <= box_.bottom; }

  void start(Point p) {
    out_.starts.push_back(out_.points.size());
    out_.points.push_back(p);
  }

  void segment(Point a, Point b) {
    now_.pending_single = false;
    double t0 = 0, t1 = 1;
    const double dx = b.x - a.x, dy = b.y - a.y;
    const auto cut = [&](double p, double q) {
      if (p == 0) return q >= 0;
      const double t = q / p;
      if (p < 0) {
        t0 = std::max(t0, t);
      } else {
        t1 = std::min(t1, t);
      }
      return t0 <= t1;
    };
    if (!cut(-dx, a.x - box_.left) || !cut(dx, box_.right - a.x) || !cut(-dy, a.y - box_.top) ||
        !cut(dy, box_.bottom - a.y)) {
      now_.open = false;
      return;
    }
    if (!now_.open || t0 > 0) start({a.x + t0 * dx, a.y + t0 * dy});
    const Point end = t1 < 1 ? Point{a.x + t1 * dx, a.y + t1 * dy} : b;
    if (end.x != out_.points.back().x || end.y != out_.points.back().y) out_.points.push_back(end);
    now_.open = t1 == 1;
  }

  CanvasCurve& out_;
  PlacingState& now_;
  Box box_;
};

/// Cuts the visible part of a curve into columns.
class ColumnCutter {
 public:
  ColumnCutter(const CurveView& curve, const AxisTransform& x, double column)
      : curve_(curve), x_(x), column_(std::max(column, 1e-3)) {}

  std::vector<CurveColumn> run(std::vector<CurveColumn> columns) const {
    auto [first, last] = visible();
    if (!columns.empty()) first = columns.back().last;
    std::size_t length = columns.empty() ? 1 : columns.back().last - columns.back().first;
    while (first < last) {
      const std::size_t end = column_end(first, last, length);
      columns.push_back({first, end, curve_.summary(first, end)});
      length = end - first;
      first = end;
    }
    return columns;
  }

 private:
  // With one neighbour on either side, so that the curve enters and leaves through the edges.
  std::pair<std::size_t, std::size_t> visible() const {
    if (!curve_.is_sorted()) return {0, curve_.size()};
    const std::size_t first = curve_.first_not_below(x_.range().low);
    std::size_t last = curve_.first_not_below(x_.range().high);
    while (last < curve_.size() && curve_.x(last) <= x_.range().high) ++last;
    return {first > 0 ? first - 1 : 0, std::min(last + 1, curve_.size())};
  }

  double column_of(std::size_t i) const { return std::floor((x_.to_canvas(curve_.x(i)) - x_.from()) / column_); }

  // `length`: points of the previous column, where the search starts, because neighbours hold about as many.
  std::size_t column_end(std::size_t first, std::size_t last, std::size_t length) const {
    const double column = column_of(first);
    if (!std::isfinite(column)) return first + 1;
    if (curve_.is_sorted()) {
      const double edge = x_.to_data(x_.from() + (column + 1) * column_);
      return std::clamp(rounded(first, curve_.first_not_below(edge, first + length)), first + 1, last);
    }
    std::size_t end = first + 1;
    while (end < last && column_of(end) == column) ++end;
    return end;
  }

  // Rounds the edge to a boundary of runs, because a pyramid stores the summaries of whole runs and blocks.
  static std::size_t rounded(std::size_t first, std::size_t end) {
    for (const std::size_t step : {CurvePyramid::block_size, CurvePyramid::run_size}) {
      if (end >= first + 8 * step) return (end + step - 1) / step * step;
    }
    return end;
  }

  const CurveView& curve_;
  const AxisTransform& x_;
  double column_;
};

/// Transforms the points of columns to the canvas.
class Placer {
 public:
  Placer(const CurveView& curve, const AxisTransform& x, const AxisTransform& y, CanvasCurve begun,
         const PlacingState& state)
      : curve_(curve), x_(x), y_(y), out_(std::move(begun)), now_(state), pieces_(out_, now_, box(x, y)) {
    out_.points.resize(now_.points);
    out_.starts.resize(now_.starts);
    out_.flaws.resize(now_.flaws);
  }

  CanvasCurve run(std::span<const CurveColumn> columns, std::size_t settled, PlacingState& after_settled) {
    for (std::size_t i = now_.columns; i < columns.size(); ++i) {
      add(columns[i]);
      if (i + 1 == settled) after_settled = state_after(settled);
    }
    pieces_.gap();
    return std::move(out_);
  }

 private:
  static Box box(const AxisTransform& x, const AxisTransform& y) {
    return {std::min(x.from(), x.to()) - air, std::min(y.from(), y.to()) - air, std::max(x.from(), x.to()) + air,
            std::max(y.from(), y.to()) + air};
  }

  PlacingState state_after(std::size_t columns) const {
    PlacingState state = now_;
    state.columns = columns;
    state.points = out_.points.size();
    state.starts = out_.starts.size();
    state.flaws = out_.flaws.size();
    return state;
  }

  bool is_log() const { return y_.scale() == Scale::log; }

  bool has_place(std::size_t i) const {
    const double x = curve_.x(i), y = curve_.y(i);
    return std::isfinite(x) && std::isfinite(y) && !(is_log() && y <= 0) && !(x_.scale() == Scale::log && x <= 0);
  }

  Point place(std::size_t i) const { return {x_.to_canvas(curve_.x(i)), y_.to_canvas(curve_.y(i))}; }

  void add(const CurveColumn& column) {
    const Summary& s = column.summary;
    if (!has_place(column.first)) pieces_.gap();
    std::array<std::size_t, 4> kept = {column.first, is_log() ? s.lowest_positive : s.lowest, s.highest,
                                       column.last - 1};
    std::ranges::sort(kept);
    const auto end = std::unique(kept.begin(), kept.end());
    for (auto i = kept.begin(); i != end; ++i) {
      if (*i == Summary::none || !has_place(*i)) continue;
      now_.last_place = place(*i);
      now_.has_last_place = true;
      pieces_.add(now_.last_place);
    }
    if (s.first_flaw != Summary::none) mark(s.first_flaw);
    if (is_log() && s.first_non_positive != Summary::none) mark(s.first_non_positive);
    if (!has_place(column.last - 1)) pieces_.gap();
  }

  static Flaw flaw_of(double x, double y) {
    if (std::isnan(y) || !std::isfinite(x)) return Flaw::not_a_number;
    return std::isfinite(y) ? Flaw::off_log : y > 0 ? Flaw::above : Flaw::below;
  }

  void mark(std::size_t i) {
    const double left = std::min(x_.from(), x_.to()), right = std::max(x_.from(), x_.to());
    double x = x_.to_canvas(curve_.x(i));
    if (std::isnan(x)) x = now_.has_last_place ? now_.last_place.x : left;
    if (x < left - 0.5 || x > right + 0.5) return;
    const double y = curve_.y(i);
    const Flaw flaw = flaw_of(curve_.x(i), y);
    double& last_x = now_.last_flaw_x[static_cast<int>(flaw)];
    if (std::abs(x - last_x) < flaw_spacing) return;
    last_x = x;
    const double top = std::min(y_.from(), y_.to()), bottom = std::max(y_.from(), y_.to());
    const double good = std::clamp(now_.has_last_place ? now_.last_place.y : bottom, top, bottom);
    const double height = flaw == Flaw::not_a_number ? good : flaw == Flaw::above ? top : bottom;
    out_.flaws.push_back({{x, height}, flaw});
  }

  const CurveView& curve_;
  const AxisTransform& x_;
  const AxisTransform& y_;
  CanvasCurve out_;
  PlacingState now_;
  PieceBuilder pieces_;
};

/// Of the values whose other coordinate is finite.
Extent extent_of(std::span<const double> values, std::span<const double> others) {
  Extent extent;
  for (std::size_t i = 0; i < std::min(values.size(), others.size()); ++i) {
    if (std::isfinite(others[i])) extent.add(values[i]);
  }
  return extent;
}

}  // namespace

CurveView::CurveView(const Curve& curve) {
  if (curve.pyramid) {
    pyramid_ = curve.pyramid.get();
    size_ = pyramid_->size();
    is_sorted_ = pyramid_->is_sorted();
  } else {
    *this = CurveView(curve.x.span(), curve.y.span());
  }
}

CurveView::CurveView(std::span<const double> x, std::span<const double> y)
    : x_(x), y_(y), size_(std::min(x.size(), y.size())) {
  for (std::size_t i = 0; i < size_ && is_sorted_; ++i) is_sorted_ = i == 0 ? !std::isnan(x[0]) : x[i] >= x[i - 1];
}

std::size_t CurveView::first_not_below(double value) const {
  if (pyramid_) return pyramid_->first_not_below(value);
  return static_cast<std::size_t>(std::lower_bound(x_.begin(), x_.begin() + size_, value) - x_.begin());
}

std::size_t CurveView::first_not_below(double value, std::size_t guess) const {
  return pyramid_ ? pyramid_->first_not_below(value, guess) : first_not_below(value);
}

Summary CurveView::summary(std::size_t first, std::size_t last) const {
  return pyramid_ ? pyramid_->summary(first, last) : summary_of(x_, y_, first, std::min(last, size_));
}

Extent CurveView::x_extent() const { return pyramid_ ? pyramid_->x_extent() : extent_of(x_, y_); }

Extent CurveView::y_extent() const { return pyramid_ ? pyramid_->y_extent() : extent_of(y_, x_); }

std::span<const Point> CanvasCurve::piece(std::size_t i) const {
  const std::size_t end = i + 1 < starts.size() ? starts[i + 1] : points.size();
  return std::span(points).subspan(starts[i], end - starts[i]);
}

std::vector<CurveColumn> curve_columns(const CurveView& curve, const AxisTransform& x, double column,
                                       std::vector<CurveColumn> known) {
  return ColumnCutter(curve, x, column).run(std::move(known));
}

CanvasCurve placed_columns(const CurveView& curve, std::span<const CurveColumn> columns, const AxisTransform& x,
                           const AxisTransform& y, CanvasCurve begun, PlacingState& state, std::size_t settled) {
  return Placer(curve, x, y, std::move(begun), state).run(columns, settled, state);
}

CanvasCurve thinned_curve(const CurveView& curve, const AxisTransform& x, const AxisTransform& y, double column) {
  PlacingState from_the_start;
  return placed_columns(curve, curve_columns(curve, x, column), x, y, {}, from_the_start, 0);
}

}  // namespace afterglow
