// Finds what a person would say first of each kind of series.
#include "core/figure/summary.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "core/figure/axis.h"
#include "core/figure/decimate.h"

namespace afterglow {

namespace {

constexpr int digits = 3;
constexpr std::size_t max_series = 8;
constexpr double small_change = 0.02;  ///< of the largest magnitude: a curve that changes less is level
constexpr double short_part = 0.1;     ///< of a curve, in which most of its change is worth a word

std::string text_of(double value) { return number_text(value, digits); }

/// A place on an axis: the name of its tick, else "step 40", "lag 12 tokens".
std::string place_of(const Axis& axis, double at) {
  for (const AxisTick& tick : axis.ticks) {
    if (tick.at == at && !tick.label.empty()) return tick.label;
  }
  const std::string unit = axis.unit.empty() ? "" : " " + axis.unit;
  return (axis.label.empty() ? "" : axis.label + " ") + text_of(at) + unit;
}

struct Finite {
  std::vector<Point> points;
  std::size_t left_out = 0;
};

Finite finite_points(const CurveView& curve) {
  Finite finite;
  for (std::size_t i = 0; i < curve.size(); ++i) {
    if (std::isfinite(curve.x(i)) && std::isfinite(curve.y(i)))
      finite.points.push_back({curve.x(i), curve.y(i)});
    else
      ++finite.left_out;
  }
  return finite;
}

std::string left_out_text(std::size_t count) {
  if (count == 0) return "";
  return "; " + std::to_string(count) + (count == 1 ? " value is" : " values are") + " not finite";
}

/// "; most of it between step 600 and step 640", where half of the whole change happens in a tenth of the curve.
std::string jump_of(const Axis& x, std::span<const Point> points) {
  const double change = points.back().y - points.front().y;
  const auto width =
      std::max<std::size_t>(1, static_cast<std::size_t>(short_part * static_cast<double>(points.size())));
  if (points.size() < 10) return "";
  std::size_t first = 0;
  double largest = 0;
  for (std::size_t i = 0; i + width < points.size(); ++i) {
    const double part = (points[i + width].y - points[i].y) / change;
    if (part > largest) {
      largest = part;
      first = i;
    }
  }
  if (largest < 0.5) return "";
  return "; most of it between " + place_of(x, points[first].x) + " and " + place_of(x, points[first + width].x);
}

std::string extremes_of(const Axis& x, std::span<const Point> points) {
  const auto [low, high] = std::ranges::minmax_element(points, {}, &Point::y);
  std::string text;
  const auto is_inside = [&](const auto& at) { return at->y != points.front().y && at->y != points.back().y; };
  if (is_inside(low)) text += "; lowest " + text_of(low->y) + " at " + place_of(x, low->x);
  if (is_inside(high)) text += "; highest " + text_of(high->y) + " at " + place_of(x, high->x);
  return text;
}

struct Words {
  const Figure& figure;

  std::string operator()(const Line& line) const {
    const Finite finite = finite_points(CurveView(line.curve));
    const std::vector<Point>& points = finite.points;
    const std::string rest = left_out_text(finite.left_out);
    if (points.empty()) return "no values" + rest;
    const Point first = points.front(), last = points.back();
    if (points.size() == 1) return text_of(first.y) + " at " + place_of(figure.x, first.x) + rest;
    const double change = last.y - first.y, size = std::max(std::abs(first.y), std::abs(last.y));
    if (std::abs(change) <= small_change * size)
      return "stays near " + text_of(last.y) + " up to " + place_of(figure.x, last.x) + extremes_of(figure.x, points) +
             rest;
    return (change > 0 ? "rises from " : "falls from ") + text_of(first.y) + " at " + place_of(figure.x, first.x) +
           " to " + text_of(last.y) + " at " + place_of(figure.x, last.x) + jump_of(figure.x, points) +
           extremes_of(figure.x, points) + rest;
  }

  std::string operator()(const Bars& bars) const {
    std::vector<Bar> sorted;
    for (const Bar& bar : bars.bars) {
      if (std::isfinite(bar.value)) sorted.push_back(bar);
    }
    if (sorted.empty()) return "no bars";
    std::ranges::stable_sort(sorted, std::greater<>(), [](const Bar& bar) { return std::abs(bar.value); });
    std::string text = std::to_string(sorted.size()) + (sorted.size() == 1 ? " bar" : " bars") + ", largest ";
    for (std::size_t i = 0; i < std::min<std::size_t>(3, sorted.size()); ++i) {
      text += (i > 0 ? ", " : "") + place_of(figure.x, sorted[i].x) + ": " + text_of(sorted[i].value);
      if (std::isfinite(sorted[i].before)) text += " (before " + text_of(sorted[i].before) + ")";
    }
    return text + left_out_text(bars.bars.size() - sorted.size());
  }

  std::string operator()(const Scatter& scatter) const {
    Extent x, y;
    for (const ScatterPoint& point : scatter.points) {
      x.add(point.x);
      y.add(point.y);
    }
    if (x.empty() || y.empty()) return "no dots";
    return std::to_string(scatter.points.size()) + (scatter.points.size() == 1 ? " dot" : " dots") + ", " +
           span_of(figure.x, x) + ", " + span_of(figure.y, y);
  }

  std::string operator()(const HeatMap& map) const {
    const std::span<const double> cells = map.cells.span();
    const auto count =
        static_cast<std::size_t>(std::max(0, map.rows)) * static_cast<std::size_t>(std::max(0, map.cols));
    if (count == 0 || cells.size() < count) return "no values";
    std::size_t largest = count, left_out = 0;
    Extent extent;
    for (std::size_t i = 0; i < count; ++i) {
      extent.add(cells[i]);
      left_out += std::isnan(cells[i]) && map.nan_is_blank ? 0 : !std::isfinite(cells[i]);
      if (std::isfinite(cells[i]) && (largest == count || cells[i] > cells[largest])) largest = i;
    }
    const std::string size = std::to_string(map.rows) + " × " + std::to_string(map.cols) + " cells";
    if (extent.empty()) return size + ", none with a value";
    const auto columns = static_cast<std::size_t>(map.cols);
    const auto name = [](const std::vector<std::string>& names, const std::string& axis, std::size_t at) {
      return axis + " " + (at < names.size() ? names[at] : std::to_string(at));
    };
    return size + " from " + text_of(extent.low) + " to " + text_of(extent.high) + ", largest at " +
           name(map.row_labels, figure.y.label.empty() ? "row" : figure.y.label, largest / columns) + ", " +
           name(map.col_labels, figure.x.label.empty() ? "column" : figure.x.label, largest % columns) +
           left_out_text(left_out);
  }

  static std::string span_of(const Axis& axis, const Extent& extent) {
    const std::string unit = axis.unit.empty() ? "" : " " + axis.unit;
    return axis.label + " from " + text_of(extent.low) + " to " + text_of(extent.high) + unit;
  }
};

bool is_quiet(const Series& series) {
  const auto* line = std::get_if<Line>(&series);
  return line && line->is_quiet;
}

}  // namespace

std::string summary_of(const Figure& figure) {
  std::string text = figure.title;
  for (const std::string& part : {figure.subject, figure.subtitle}) {
    if (!part.empty() && part != figure.title) text += ", " + part;
  }
  text += ".";
  std::size_t told = 0, quiet = 0;
  for (const Series& series : figure.series) {
    if (is_quiet(series)) {
      ++quiet;
      continue;
    }
    if (++told > max_series) continue;
    const std::string& name = series_name(series);
    text += " " + (name.empty() ? "" : name + ": ") + std::visit(Words{figure}, series) + ".";
  }
  if (told > max_series) text += " " + std::to_string(told - max_series) + " more.";
  if (told + quiet == 0) text += " Nothing is shown yet.";
  return text;
}

}  // namespace afterglow
