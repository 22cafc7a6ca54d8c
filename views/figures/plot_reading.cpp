// Reads curves at cursors and fits the law between two of them.
#include "views/figures/plot_reading.h"

#include <algorithm>
#include <cmath>

#include "core/engine/analyses/influence/influence_view.h"
#include "core/figure/decimate.h"

namespace afterglow {
namespace {

constexpr std::size_t max_fitted_points = 4096, max_measured_lines = 8, max_joined_lines = 20, max_read_lines = 16;

/// The unit along an axis: "tokens", or for an axis "step" the steps.
std::string unit_of(const Axis& axis) { return axis.unit.empty() ? axis.label + "s" : axis.unit; }

double on_scale(double value, Scale scale) { return scale == Scale::log ? std::log10(value) : value; }

struct Fit {
  double slope = std::nan("");
  double error = INFINITY;  // half the 95 % interval
};

/// Least squares over the points with a <= x <= b, at most a few thousand of them at equal steps.
Fit fitted(const CurveView& curve, double a, double b, Scale x_scale, Scale y_scale) {
  std::size_t first = 0, last = curve.size();
  if (curve.is_sorted()) {
    first = curve.first_not_below(a);
    last = std::min(curve.size(), curve.first_not_below(std::nextafter(b, INFINITY)));
  }
  if (last <= first) return {};
  const std::size_t stride = (last - first) / max_fitted_points + 1;
  double n = 0, mean_x = 0, mean_y = 0, xx = 0, xy = 0, yy = 0;
  for (std::size_t i = first; i < last; i += stride) {
    if (curve.x(i) < a || curve.x(i) > b) continue;
    const double x = on_scale(curve.x(i), x_scale), y = on_scale(curve.y(i), y_scale);
    if (!std::isfinite(x) || !std::isfinite(y)) continue;
    n += 1;
    const double dx = x - mean_x;
    const double dy = y - mean_y;
    mean_x += dx / n;
    mean_y += dy / n;
    xx += dx * (x - mean_x);
    xy += dx * (y - mean_y);
    yy += dy * (y - mean_y);
  }
  if (n < 2 || !(xx > 0)) return {};
  Fit fit{xy / xx};
  const double degrees = n - 2, squares = std::max(0.0, yy - xy * xy / xx);
  if (degrees > 0) fit.error = student_t_975(static_cast<int>(degrees)) * std::sqrt(squares / degrees / xx);
  return fit;
}

/// " ± 0.02"; empty if it is unknown or too small to matter.
std::string error_text(double error, double value) {
  const bool is_worth_saying = std::isfinite(error) && error >= 1e-3 * std::abs(value);
  return is_worth_saying ? " ± " + number_text(error, 1) : "";
}

std::string law_text(const Fit& fit, Scale x_scale, Scale y_scale, const std::string& unit) {
  const auto [slope, error] = fit;
  if (!std::isfinite(slope)) return "";
  const std::string text = number_text(slope, 3) + error_text(error, slope);
  if (x_scale == Scale::log && y_scale == Scale::log) return "power law, exponent " + text;
  if (x_scale != Scale::log && y_scale == Scale::log) {
    if (slope == 0) return "constant";
    const double length = std::log10(2.0) / std::abs(slope);
    return (slope < 0 ? "half-life " : "doubles in ") + number_text(length, 3) +
           error_text(length * error / std::abs(slope), length) + " " + unit;
  }
  return x_scale == Scale::log ? text + " per decade" : "slope " + text;
}

/// A row or column of a map: its name, after its number if several have the same name, as tokens do.
std::string place_text(const std::vector<std::string>& names, int index) {
  const std::string number = std::to_string(index);
  if (static_cast<std::size_t>(index) >= names.size()) return number;
  const std::string& name = names[static_cast<std::size_t>(index)];
  return std::set(names.begin(), names.end()).size() < names.size() ? number + " " + name : name;
}

/// The cursor is before the line's first point or after its last.
bool is_beyond_its_line(const Figure& figure, const NearestPoint& point, double x) {
  const auto* line = std::get_if<Line>(&figure.series[point.series]);
  if (!line) return false;
  return (point.index == 0 && x < point.x) || (point.index + 1 == CurveView(line->curve).size() && x > point.x);
}

/// Keeps as many points as fit into a box, in the order of their series: those nearest to `y` on the displayed axis, or
/// the first ones. Returns the number of removed points.
std::size_t keep_nearest(std::vector<NearestPoint>& points, Scale scale, std::optional<double> y) {
  if (points.size() <= max_read_lines) return 0;
  const auto distance = [&](const NearestPoint& point) {
    const double apart = y ? std::abs(on_scale(point.y, scale) - on_scale(*y, scale)) : 0.0;
    return std::isfinite(apart) ? apart : INFINITY;
  };
  std::ranges::stable_sort(points, {}, distance);
  const std::size_t left_out = points.size() - max_read_lines;
  points.erase(points.begin() + max_read_lines, points.end());
  std::ranges::sort(points, {}, &NearestPoint::series);
  return left_out;
}

/// The amount that a box over this part of the plot would hide: names, dots, and curves along their whole length.
double hidden_by(const Figure& figure, const FigureGeometry& geometry, const Rect& box) {
  constexpr double name_weight = 20;
  double hidden = 0;
  for (const SeriesLabel& label : geometry.labels) hidden += label.rect.overlaps(box) ? name_weight : 0;
  for (const DrawnPoint& point : geometry.points) hidden += box.contains(point.place) ? 1 : 0;
  for (const Series& series : figure.series) {
    const auto* line = std::get_if<Line>(&series);
    if (!line) continue;
    const CurveView curve(line->curve);
    const std::size_t stride = curve.size() / 256 + 1;
    constexpr int parts = 8;  // of the distance between two points
    for (std::size_t i = 0; i + stride < curve.size() || i == 0; i += stride) {
      if (curve.size() == 0) break;
      const std::size_t next = std::min(i + stride, curve.size() - 1);
      const Point from = geometry.to_canvas(curve.x(i), curve.y(i)),
                  to = geometry.to_canvas(curve.x(next), curve.y(next));
      for (int part = 0; part < parts; ++part) {
        const double t = static_cast<double>(part) / parts;
        hidden += box.contains({from.x + t * (to.x - from.x), from.y + t * (to.y - from.y)}) ? 1 : 0;
      }
    }
  }
  return hidden;
}

bool is_usable(const Range& range, Scale scale) {
  if (!std::isfinite(range.low) || !std::isfinite(range.high) || !std::isfinite(range.high - range.low)) return false;
  if (scale == Scale::log && range.low <= 0) return false;
  return range.high - range.low > 1e-12 * std::max(std::abs(range.low), std::abs(range.high));
}

/// The data between two places on the axis, in ascending order.
void look_at(std::optional<Range>& shown, const AxisTransform& axis, double from, double to) {
  Range range{axis.to_data(from), axis.to_data(to)};
  if (range.high < range.low) std::swap(range.low, range.high);
  if (is_usable(range, axis.scale())) shown = range;
}

}  // namespace

void pan(PlotState& state, const FigureGeometry& geometry, double dx, double dy) {
  if (dx != 0) look_at(state.x, geometry.x, geometry.x.from() - dx, geometry.x.to() - dx);
  if (dy != 0) look_at(state.y, geometry.y, geometry.y.from() - dy, geometry.y.to() - dy);
}

void zoom_at(PlotState& state, const FigureGeometry& geometry, Point place, double factor, AxisChoice axes) {
  const auto zoom = [&](std::optional<Range>& shown, const AxisTransform& axis, double at) {
    look_at(shown, axis, at + (axis.from() - at) * factor, at + (axis.to() - at) * factor);
  };
  if (axes.x) zoom(state.x, geometry.x, place.x);
  if (axes.y) zoom(state.y, geometry.y, place.y);
}

void zoom_to_box(PlotState& state, const FigureGeometry& geometry, Point from, Point to) {
  constexpr double smallest = 5;
  if (std::abs(from.x - to.x) < smallest || std::abs(from.y - to.y) < smallest) return;
  look_at(state.x, geometry.x, from.x, to.x);
  look_at(state.y, geometry.y, from.y, to.y);
}

Scale next_scale(Scale scale) {
  return scale == Scale::linear ? Scale::log : scale == Scale::log ? Scale::symlog : Scale::linear;
}

void set_scale(PlotState& state, char axis, Scale scale) {
  (axis == 'x' ? state.x_scale : state.y_scale) = scale;
  (axis == 'x' ? state.x : state.y) = std::nullopt;
}

void place_cursor(PlotState& state, double x) {
  if (!std::isfinite(x)) return;
  if (!state.mark_a) {
    state.mark_a = x;
  } else if (!state.mark_b) {
    state.mark_b = x;
  } else {
    state.mark_a = state.mark_b = std::nullopt;
  }
}

void move_cursor(PlotState& state, char which, double x) {
  if (!std::isfinite(x)) return;
  (which == 'b' && state.mark_a ? state.mark_b : state.mark_a) = x;
}

char cursor_near(const PlotState& state, const FigureGeometry& geometry, double canvas_x, double reach) {
  const auto distance = [&](const std::optional<double>& mark) {
    return mark ? std::abs(geometry.x.to_canvas(*mark) - canvas_x) : INFINITY;
  };
  const double a = distance(state.mark_a), b = distance(state.mark_b);
  if (!(std::min(a, b) <= reach)) return 0;
  return a <= b ? 'a' : 'b';
}

FigureView view_of(const PlotState& state, double text_size) {
  FigureView view{.x = state.x};
  view.y = state.y;
  view.x_scale = state.x_scale;
  view.y_scale = state.y_scale;
  view.hidden.assign(state.hidden.begin(), state.hidden.end());
  view.mark_a = state.mark_a;
  view.mark_b = state.mark_b;
  view.colours = state.colours;
  view.text_size = text_size;
  return view;
}

std::vector<ReadingLine> values_at(const Figure& figure, const FigureView& view, double x, std::optional<double> y) {
  std::vector<NearestPoint> points = nearest_points(figure, view, x);
  std::erase_if(points, [&](const NearestPoint& point) {
    const auto* line = std::get_if<Line>(&figure.series[point.series]);
    return line && line->is_quiet;
  });
  if (points.empty()) return {};
  const int digits = figure.x.integer_ticks ? 12 : 4;
  const bool share_a_place = std::ranges::all_of(points, [&](const NearestPoint& p) { return p.x == points[0].x; });
  const double place = share_a_place ? points[0].x : figure.x.integer_ticks ? std::round(x) : x;
  const std::size_t left_out = keep_nearest(points, figure.y.scale, y);
  std::vector<ReadingLine> lines{{figure.x.label, place_text(figure.x, place, digits), Role::dim, true}};
  for (const NearestPoint& point : points) {
    const bool is_elsewhere = !share_a_place && is_beyond_its_line(figure, point, x);
    lines.push_back({std::string(stem_of(point.name)),
                     number_text(point.y, 4) + (is_elsewhere ? " at " + place_text(figure.x, point.x, digits) : ""),
                     point.ink, false});
  }
  if (left_out > 0) lines.push_back({std::to_string(left_out) + " more", "", Role::faint, false});
  return lines;
}

std::vector<ReadingLine> cell_at(const Figure& figure, double x, double y) {
  for (const Series& series : figure.series) {
    const auto* map = std::get_if<HeatMap>(&series);
    if (!map) continue;
    const auto cell = heat_cell_at(*map, x, y);
    if (!cell || (map->nan_is_blank && std::isnan(cell->value))) return {};
    return {{map->name, number_text(cell->value, 4), Role::text, true},
            {figure.y.label, place_text(map->row_labels, cell->row), Role::faint, false},
            {figure.x.label, place_text(map->col_labels, cell->col), Role::faint, false}};
  }
  return {};
}

std::vector<ReadingLine> point_lines(const Figure& figure, const DrawnPoint& drawn) {
  const auto& scatter = std::get<Scatter>(figure.series[drawn.series]);
  const ScatterPoint& point = scatter.points[drawn.point];
  const auto with_unit = [](const Axis& axis, double at) {
    return place_text(axis, at, 4) + (axis.unit.empty() ? "" : " " + axis.unit);
  };
  const std::string name = !point.id.empty() ? point.id : !point.label.empty() ? point.label : scatter.name;
  return {{name, "", point.ink, true},
          {figure.x.label, with_unit(figure.x, point.x), point.ink, false},
          {figure.y.label, with_unit(figure.y, point.y), point.ink, false}};
}

std::vector<ReadingLine> joined_readings(const PlotReading& first, const std::vector<PlotReading>& others) {
  std::vector<ReadingLine> all = first.lines;
  if (all.empty()) return all;
  const auto is_known = [&](const ReadingLine& line) {
    return line.is_heading || std::ranges::any_of(all, [&](const ReadingLine& known) {
             return known.name == line.name && known.value == line.value;
           });
  };
  std::size_t left_out = 0;
  for (const PlotReading& other : others) {
    if (std::ranges::all_of(other.lines, is_known)) continue;
    if (all.size() + other.lines.size() > max_joined_lines) {
      ++left_out;
      continue;
    }
    const std::string& place = other.lines.front().value;
    const bool is_there_too = place == first.lines.front().value;
    if (other.lines.size() == 2) {
      all.push_back(other.lines[1]);
      all.back().name = other.title;
      if (!is_there_too) all.back().value += " at " + place;
      continue;
    }
    all.push_back({other.title, is_there_too ? "" : place, Role::dim, true});
    all.insert(all.end(), other.lines.begin() + 1, other.lines.end());
  }
  if (left_out > 0)
    all.push_back({std::to_string(left_out) + (left_out == 1 ? " plot more" : " plots more"), "", Role::faint, true});
  return all;
}

Rect free_place(const Figure& figure, const FigureGeometry& geometry, Point size, double air) {
  const Rect& plot = geometry.plot;
  constexpr int steps = 6;
  const double top = plot.y + 2.5 * air, left = plot.x + air, bottom = std::max(top, plot.bottom() - air - size.y),
               right = std::max(left, plot.right() - air - size.x);
  Rect best{left, bottom, size.x, size.y};
  double least = INFINITY;
  // Corners and edges first, so that a box keeps its place while a curve grows elsewhere.
  for (const bool is_at_edge : {true, false}) {
    for (int i = 0; i <= steps && least > 0; ++i) {
      for (int j = 0; j <= steps && least > 0; ++j) {
        if (is_at_edge != (i == 0 || j == 0 || i == steps || j == steps)) continue;
        const Rect box{left + j * (right - left) / steps, bottom - i * (bottom - top) / steps, size.x, size.y};
        const double hidden = hidden_by(figure, geometry, box);
        if (hidden < least) best = box;
        least = std::min(least, hidden);
      }
    }
  }
  return best;
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
    if (!line || line->is_quiet || at_b[i].series != at_a[i].series) continue;
    const Fit fit = fitted(CurveView(line->curve), a, b, x_scale, y_scale);
    const double from = at_a[i].y, to = at_b[i].y;
    list.push_back({line->name, line->ink, from, to, to - from, to / from, fit.slope, fit.error,
                    law_text(fit, x_scale, y_scale, unit_of(figure.x))});
  }
  return list;
}

std::vector<ReadingLine> measurement_lines(const Figure& figure, const FigureView& view) {
  if (!view.mark_a) return {};
  if (!view.mark_b) return {{"A " + number_text(*view.mark_a, 4), "B: Ctrl click, or key B", Role::text, true}};
  std::vector<ReadingLine> lines{{"A " + number_text(*view.mark_a, 4) + "   B " + number_text(*view.mark_b, 4),
                                  "Δx " + number_text(*view.mark_b - *view.mark_a, 4) + " " + unit_of(figure.x),
                                  Role::text, true}};
  const std::vector<Measurement> all = measure(figure, view);
  for (std::size_t i = 0; i < std::min(all.size(), max_measured_lines); ++i) {
    const Measurement& m = all[i];
    lines.push_back({std::string(stem_of(m.name)),
                     "Δy " + number_text(m.difference, 3) + "  B/A " + number_text(m.ratio, 3) + "  " + m.law, m.ink,
                     false});
  }
  if (all.size() > max_measured_lines)
    lines.push_back({std::to_string(all.size() - max_measured_lines) + " more", "", Role::faint, false});
  return lines;
}

}  // namespace afterglow
