// Reads curves at cursors and fits the law between two of them.
#include "views/plot_reading.h"

#include <algorithm>
#include <cmath>

#include "core/figure/decimate.h"

namespace afterglow {

namespace {

constexpr std::size_t most_fitted_points = 4096;

/// What one counts along an axis: "tokens", or of an axis "step" the steps.
std::string unit_of(const Axis& axis) { return axis.unit.empty() ? axis.label + "s" : axis.unit; }

double on_scale(double value, Scale scale) { return scale == Scale::log ? std::log10(value) : value; }

struct Fit {
  double slope = std::nan("");
};

/// Least squares over the points with a <= x <= b, at most a few thousand of them at equal steps.
Fit fitted(const CurveView& curve, double a, double b, Scale x_scale, Scale y_scale) {
  std::size_t first = 0, last = curve.size();
  if (curve.is_sorted()) {
    first = curve.first_not_below(a);
    last = std::min(curve.size(), curve.first_not_below(std::nextafter(b, INFINITY)));
  }
  if (last <= first) return {};
  const std::size_t stride = (last - first) / most_fitted_points + 1;
  double n = 0, mean_x = 0, mean_y = 0, xx = 0, xy = 0;
  for (std::size_t i = first; i < last; i += stride) {
    if (curve.x(i) < a || curve.x(i) > b) continue;
    const double x = on_scale(curve.x(i), x_scale), y = on_scale(curve.y(i), y_scale);
    if (!std::isfinite(x) || !std::isfinite(y)) continue;
    n += 1;
    const double dx = x - mean_x;
    mean_x += dx / n;
    mean_y += (y - mean_y) / n;
    xx += dx * (x - mean_x);
    xy += dx * (y - mean_y);
  }
  return n >= 2 && xx > 0 ? Fit{xy / xx} : Fit{};
}

std::string law_text(double slope, Scale x_scale, Scale y_scale, const std::string& unit) {
  if (!std::isfinite(slope)) return "";
  if (x_scale == Scale::log && y_scale == Scale::log) return "power law, exponent " + number_text(slope, 3);
  if (x_scale != Scale::log && y_scale == Scale::log) {
    if (slope == 0) return "constant";
    return (slope < 0 ? "half-life " : "doubles in ") + number_text(std::log10(2.0) / std::abs(slope), 3) + " " + unit;
  }
  if (x_scale == Scale::log) return number_text(slope, 3) + " per decade";
  return "slope " + number_text(slope, 3);
}

}  // namespace

std::vector<ReadingLine> values_at(const Figure& figure, const FigureView& view, double x) {
  const std::vector<NearestPoint> points = nearest_points(figure, view, x);
  if (points.empty()) return {};
  const double shown = figure.x.integer_ticks ? std::round(x) : x;
  std::vector<ReadingLine> lines{
      {figure.x.label, number_text(shown, figure.x.integer_ticks ? 12 : 4), Role::dim, true}};
  for (const NearestPoint& point : points) lines.push_back({point.name, number_text(point.y, 4), point.ink, false});
  return lines;
}

std::vector<ReadingLine> cell_at(const Figure& figure, double x, double y) {
  for (const Series& series : figure.series) {
    const auto* map = std::get_if<HeatMap>(&series);
    if (!map) continue;
    const auto cell = heat_cell_at(*map, x, y);
    if (!cell) return {};
    return {{map->name, "", Role::text, true},
            {"row " + std::to_string(cell->row) + ", column " + std::to_string(cell->col), number_text(cell->value, 4),
             Role::dim, false}};
  }
  return {};
}

std::vector<Measurement> measure(const Figure& figure, const FigureView& view) {
  std::vector<Measurement> list;
  if (!view.mark_a || !view.mark_b) return list;
  const double a = std::min(*view.mark_a, *view.mark_b), b = std::max(*view.mark_a, *view.mark_b);
  const Scale x_scale = view.x_scale.value_or(figure.x.scale), y_scale = view.y_scale.value_or(figure.y.scale);
  const std::vector<NearestPoint> at_a = nearest_points(figure, view, *view.mark_a),
                                  at_b = nearest_points(figure, view, *view.mark_b);
  for (std::size_t i = 0; i < at_a.size() && i < at_b.size(); ++i) {
    const auto* line = std::get_if<Line>(&figure.series[at_a[i].series]);
    if (!line || at_b[i].series != at_a[i].series) continue;
    Measurement m;
    m.name = line->name;
    m.ink = line->ink;
    m.at_a = at_a[i].y;
    m.at_b = at_b[i].y;
    m.difference = m.at_b - m.at_a;
    m.ratio = m.at_b / m.at_a;
    m.slope = fitted(CurveView(line->curve), a, b, x_scale, y_scale).slope;
    m.law = law_text(m.slope, x_scale, y_scale, unit_of(figure.x));
    list.push_back(std::move(m));
  }
  return list;
}

std::vector<ReadingLine> measurement_lines(const Figure& figure, const FigureView& view) {
  if (!view.mark_a) return {};
  if (!view.mark_b) return {{"A", number_text(*view.mark_a, 5), Role::text, true}};
  std::vector<ReadingLine> lines{
      {"B − A", number_text(*view.mark_b - *view.mark_a, 5) + " " + unit_of(figure.x), Role::text, true}};
  for (const Measurement& m : measure(figure, view)) {
    lines.push_back({m.name, "Δ " + number_text(m.difference, 3) + "  B/A " + number_text(m.ratio, 3), m.ink, false});
    if (!m.law.empty()) lines.push_back({"", m.law, m.ink, false});
  }
  return lines;
}

}  // namespace afterglow
