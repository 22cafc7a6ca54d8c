// The visible range of both axes of a figure, from its data, its own settings and those of the view.
#include <cmath>

#include "core/figure/decimate.h"
#include "core/figure/layout.h"

namespace afterglow {
namespace {

struct Collector {
  Extent& x;
  Extent& y;
  bool& has_dots;
  bool& has_bars;

  void operator()(const Line& line) const {
    for (const Curve* curve : {&line.curve, &line.raw}) {
      const CurveView view(*curve);
      x.add(view.x_extent());
      y.add(view.y_extent());
    }
  }

  void operator()(const Scatter& scatter) const {
    has_dots = has_dots || !scatter.points.empty();
    for (const ScatterPoint& p : scatter.points) {
      if (std::isfinite(p.y)) x.add(p.x);
      if (std::isfinite(p.x)) y.add(p.y);
    }
    for (const Trail& trail : scatter.trails) {
      x.add(trail.x);
      y.add(trail.y);
    }
  }

  void operator()(const Bars& bars) const {
    has_bars = has_bars || !bars.bars.empty();
    const double half = bars.width > 0 ? bars.width / 2 : 0;
    for (const Bar& bar : bars.bars) {
      x.add(bar.x - half);
      x.add(bar.x + half);
      y.add(bar.value);
      y.add(bar.before);
    }
  }

  void operator()(const HeatMap& map) const {
    if (map.rows <= 0 || map.cols <= 0) return;
    x.add(-0.5);
    x.add(map.cols - 0.5);
    y.add(-0.5);
    y.add(map.rows - 0.5);
  }
};

void add_marks(const Figure& figure, Extent& x, Extent& y) {
  for (const ReferenceLine& line : figure.reference_lines)
    (line.orientation == Orientation::horizontal ? y : x).add(line.at);
  for (const ReferenceCircle& circle : figure.reference_circles) {
    x.add(circle.x - circle.radius);
    x.add(circle.x + circle.radius);
    y.add(circle.y - circle.radius);
    y.add(circle.y + circle.radius);
  }
}

Range visible_range(const Axis& axis, const Extent& data, RangeFit fit, const std::optional<Range>& wanted) {
  Range range = fitted_range(data, axis.scale, fit);
  if (axis.range) range = usable_range(*axis.range, axis.scale, range);
  return wanted ? usable_range(*wanted, axis.scale, range) : range;
}

}  // namespace

FigureRanges figure_ranges(const Figure& figure, const FigureView& view) {
  FigureRanges out;
  bool has_dots = false, has_bars = false;
  for (const Series& series : figure.series) {
    std::visit(Collector{out.x_data, out.y_data, has_dots, has_bars}, series);
    out.has_heat_map = out.has_heat_map || std::holds_alternative<HeatMap>(series);
  }
  add_marks(figure, out.x_data, out.y_data);
  out.x_axis = shown_axis(figure.x, view.x_scale);
  out.y_axis = shown_axis(figure.y, view.y_scale);
  if (has_bars && out.y_axis.scale != Scale::log) out.y_data.add(0);
  const bool padded = has_dots || has_bars || !figure.reference_circles.empty();
  const RangeFit x_fit = padded && !out.has_heat_map ? RangeFit::padded : RangeFit::tight;
  const RangeFit y_fit = out.has_heat_map ? RangeFit::tight : figure.equal_aspect ? RangeFit::padded : RangeFit::nice;
  out.x = visible_range(out.x_axis, out.x_data, x_fit, view.x);
  out.y = visible_range(out.y_axis, out.y_data, y_fit, view.y);
  return out;
}

Axis shown_axis(const Axis& axis, const std::optional<Scale>& scale) {
  Axis shown = axis;
  if (scale) shown.scale = *scale;
  return shown;
}

}  // namespace afterglow
