// Nearest points, by binary search where x is sorted.
#include "core/figure/readout.h"

#include <cmath>

#include "core/figure/decimate.h"
#include "core/figure/layout.h"

namespace afterglow {
namespace {

// Distance on the axis as shown: that of the logarithms on a log axis.
double distance(Scale scale, double a, double b) {
  if (scale != Scale::log) return std::abs(a - b);
  return a > 0 && b > 0 ? std::abs(std::log(a) - std::log(b)) : std::numeric_limits<double>::infinity();
}

std::optional<std::size_t> nearest_index(const CurveView& curve, Scale scale, double x) {
  if (curve.size() == 0 || !std::isfinite(x)) return std::nullopt;
  if (curve.is_sorted()) {
    const std::size_t after = curve.first_not_below(x);
    if (after == 0) return 0;
    if (after == curve.size()) return after - 1;
    return distance(scale, curve.x(after), x) < distance(scale, curve.x(after - 1), x) ? after : after - 1;
  }
  std::optional<std::size_t> best;
  double best_distance = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < curve.size(); ++i) {
    const double d = distance(scale, curve.x(i), x);
    if (d < best_distance) {
      best_distance = d;
      best = i;
    }
  }
  return best;
}

}  // namespace

std::string_view stem_of(std::string_view name) { return name.substr(0, name.find(": ", 2)); }

std::vector<NearestPoint> nearest_points(const Figure& figure, const FigureView& view, double x) {
  const Scale scale = view.x_scale.value_or(figure.x.scale);
  std::vector<NearestPoint> found;
  for (std::size_t s = 0; s < figure.series.size(); ++s) {
    if (!is_shown(figure.series[s], view)) continue;
    if (const auto* line = std::get_if<Line>(&figure.series[s])) {
      const CurveView curve(line->curve);
      const auto i = nearest_index(curve, scale, x);
      if (i) found.push_back({s, *i, line->name, curve.x(*i), curve.y(*i), line->ink});
    } else if (const auto* bars = std::get_if<Bars>(&figure.series[s])) {
      std::vector<double> xs, ys;
      for (const Bar& bar : bars->bars) {
        xs.push_back(bar.x);
        ys.push_back(bar.value);
      }
      const auto i = nearest_index(CurveView(xs, ys), scale, x);
      if (i) found.push_back({s, *i, bars->name, xs[*i], ys[*i], bars->bars[*i].ink});
    }
  }
  return found;
}

std::optional<HeatCell> heat_cell_at(const HeatMap& map, double x, double y) {
  const double col = std::floor(x + 0.5), row = std::floor(y + 0.5);
  const bool is_inside = col >= 0 && col < map.cols && row >= 0 && row < map.rows;
  if (!is_complete(map) || !is_inside) return std::nullopt;
  const auto index = static_cast<std::size_t>(row) * static_cast<std::size_t>(map.cols) + static_cast<std::size_t>(col);
  return HeatCell{static_cast<int>(row), static_cast<int>(col), map.cells[index]};
}

}  // namespace afterglow
