// Sentences about the main features of each kind of series.
#include "core/figure/summary.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "core/figure/axis.h"
#include "core/figure/decimate.h"
#include "core/io/named.h"

namespace afterglow {
namespace {

constexpr int digits = 3;
constexpr std::size_t max_series = 8, max_marks = 6;
constexpr double small_change = 0.02;  ///< of the largest magnitude: a curve that changes less is level
constexpr double short_part = 0.1;     ///< share of a curve: most of its change within this share is mentioned
constexpr double far_beyond = 2;       ///< in changes between its ends: a curve with extremes farther away wavers

std::string text_of(double value) { return number_text(value, digits); }

std::string place_of(const Axis& axis, double at) { return place_text(axis, at, digits); }

std::string unit_of(const Axis& axis) { return axis.unit.empty() ? "" : " " + axis.unit; }

/// "step 40", "lag 12 tokens"
std::string named_place(const Axis& axis, double at) {
  return (axis.label.empty() ? "" : axis.label + " ") + place_of(axis, at) + unit_of(axis);
}

/// "lag from 1 to 223 tokens"
std::string span_of(const Axis& axis, const Extent& extent) {
  if (extent.low == extent.high) return named_place(axis, extent.low);
  return (axis.label.empty() ? "" : axis.label + " ") + "from " + place_of(axis, extent.low) + " to " +
         place_of(axis, extent.high) + unit_of(axis);
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

/// The part of so many points in which the curve changes most, and its share of the whole change.
struct Part {
  std::size_t first = 0;
  double share = 0;
};
Part largest_part(std::span<const double> height, std::size_t width) {
  Part largest;
  const double change = height.back() - height.front();
  for (std::size_t i = 0; i + width < height.size(); ++i) {
    const double share = (height[i + width] - height[i]) / change;
    if (share > largest.share) largest = {i, share};
  }
  return largest;
}

/// Values as drawn: their logarithms on a log axis.
std::vector<double> heights_of(const Axis& y, std::span<const Point> points) {
  const bool is_log = y.scale == Scale::log && std::ranges::all_of(points, [](const Point& p) { return p.y > 0; });
  return mapped(points, [&](const Point& point) { return is_log ? std::log10(point.y) : point.y; });
}

/// "; a jump at 612", or "; most of it between 600 and 640" where half of the change happens in a tenth of the curve.
std::string jump_of(const Axis& x, std::span<const Point> points, std::span<const double> heights) {
  if (points.size() < 10) return "";
  const Part jump = largest_part(heights, 1);
  if (jump.share >= 0.5) return "; a jump at " + place_of(x, points[jump.first + 1].x);
  const auto width =
      std::max<std::size_t>(2, static_cast<std::size_t>(short_part * static_cast<double>(points.size())));
  const Part part = largest_part(heights, width);
  if (part.share < 0.5) return "";
  return "; most of it between " + place_of(x, points[part.first].x) + " and " +
         place_of(x, points[part.first + width].x);
}

std::string extremes_of(const Axis& x, std::span<const Point> points) {
  const auto [low, high] = std::ranges::minmax_element(points, {}, &Point::y);
  std::string text;
  const auto is_inside = [&](const auto& at) { return at->y != points.front().y && at->y != points.back().y; };
  if (is_inside(low)) text += "; lowest " + text_of(low->y) + " at " + place_of(x, low->x);
  if (is_inside(high)) text += "; highest " + text_of(high->y) + " at " + place_of(x, high->x);
  return text;
}

std::vector<const Line*> told_lines(const Figure& figure) {
  std::vector<const Line*> lines;
  for (const Series& series : figure.series) {
    const auto* line = std::get_if<Line>(&series);
    if (line && !line->is_quiet) lines.push_back(line);
  }
  return lines;
}

/// The range of x of the lines that the text describes.
Extent told_extent(const Figure& figure) {
  Extent extent;
  for (const Line* line : told_lines(figure)) extent.add(CurveView(line->curve).x_extent());
  return extent;
}

struct Words {
  const Figure& figure;
  Extent x = told_extent(figure);

  /// " at 20", where a line begins or ends at another x than the others.
  std::string at_end(double at, double end) const { return at == end ? "" : " at " + place_of(figure.x, at); }

  std::string operator()(const Line& line) const {
    const Finite finite = finite_points(CurveView(line.curve));
    const std::vector<Point>& points = finite.points;
    const std::string rest = left_out_text(finite.left_out);
    if (points.empty()) return "no values" + rest;
    const Point first = points.front(), last = points.back();
    const bool is_rightwards = first.x <= last.x;
    const std::string start = text_of(first.y) + at_end(first.x, is_rightwards ? x.low : x.high);
    const std::string end = text_of(last.y) + at_end(last.x, is_rightwards ? x.high : x.low);
    if (points.size() == 1) return text_of(first.y) + " at " + place_of(figure.x, first.x) + rest;
    const std::vector<double> heights = heights_of(figure.y, points);
    const auto [low, high] = std::ranges::minmax(heights);
    const double change = heights.back() - heights.front();
    const std::string extremes = extremes_of(figure.x, points);
    const double size = std::max({std::abs(low), std::abs(high), 1e-300});
    if (high - low <= small_change * size) return "stays near " + end + extremes + rest;
    if (high - low > far_beyond * std::abs(change)) return "wavers from " + start + " to " + end + extremes + rest;
    return (change > 0 ? "rises from " : "falls from ") + start + " to " + end + jump_of(figure.x, points, heights) +
           extremes + rest;
  }

  std::string operator()(const Bars& bars) const {
    std::vector<Bar> sorted;
    for (const Bar& bar : bars.bars) {
      if (std::isfinite(bar.value)) sorted.push_back(bar);
    }
    if (sorted.empty()) return "no bars";
    std::ranges::stable_sort(sorted, std::greater<>(), [](const Bar& bar) { return std::abs(bar.value); });
    const bool has_names = !figure.x.ticks.empty();
    std::string text = std::to_string(sorted.size()) + (sorted.size() == 1 ? " bar, " : " bars, largest ");
    for (std::size_t i = 0; i < std::min<std::size_t>(3, sorted.size()); ++i) {
      const bool is_named = i == 0 && !has_names && told_lines(figure).empty();
      const std::string place = is_named ? named_place(figure.x, sorted[i].x) : place_of(figure.x, sorted[i].x);
      const std::string value = text_of(sorted[i].value);
      text += (i > 0 ? ", " : "") + (has_names ? place + ": " + value : value + " at " + place);
      if (std::isfinite(sorted[i].before)) text += " (before " + text_of(sorted[i].before) + ")";
    }
    return text + left_out_text(bars.bars.size() - sorted.size());
  }

  /// "mode 3 at 0.97, 0"
  std::string dot_text(const ScatterPoint& dot) const {
    return (dot.id.empty() ? "" : dot.id + " at ") + place_of(figure.x, dot.x) + ", " + place_of(figure.y, dot.y);
  }

  /// How far the dots are from the origin, where the figure has a circle to compare with.
  std::string circle_text(std::span<const ScatterPoint> dots) const {
    if (figure.reference_circles.empty()) return "";
    const ReferenceCircle& circle = *std::ranges::max_element(figure.reference_circles, {}, &ReferenceCircle::radius);
    const auto distance = [&](const ScatterPoint& dot) { return std::hypot(dot.x - circle.x, dot.y - circle.y); };
    const std::string farthest = text_of(distance(*std::ranges::max_element(dots, {}, distance)));
    if (dots.size() == 1) return ", " + farthest + " from the circle's middle";
    const auto outside = std::ranges::count_if(dots, [&](const auto& dot) { return distance(dot) > circle.radius; });
    return "; " + (outside == 0 ? std::string("none") : std::to_string(outside)) +
           " outside the circle, the farthest " + farthest + " from its middle";
  }

  std::string operator()(const Scatter& scatter) const {
    std::vector<ScatterPoint> dots;
    for (const ScatterPoint& point : scatter.points) {
      if (std::isfinite(point.x) && std::isfinite(point.y)) dots.push_back(point);
    }
    if (dots.empty()) return "no dots";
    Extent across, up;
    for (const ScatterPoint& dot : dots) {
      across.add(dot.x);
      up.add(dot.y);
    }
    std::string text = std::to_string(dots.size()) + (dots.size() == 1 ? " dot, " : " dots, ") +
                       span_of(figure.x, across) + ", " + span_of(figure.y, up) + circle_text(dots);
    if (dots.size() > 1 && figure.reference_circles.empty()) {
      const auto highest = std::ranges::max_element(dots, {}, &ScatterPoint::y);
      text += "; the highest at " + place_of(figure.x, highest->x);
    }
    const auto chosen = std::ranges::find_if(dots, &ScatterPoint::ring);
    if (chosen != dots.end()) text += "; chosen " + dot_text(*chosen);
    return text + left_out_text(scatter.points.size() - dots.size());
  }

  std::string operator()(const HeatMap& map) const {
    const std::span<const double> cells = map.cells.span();
    const auto count =
        static_cast<std::size_t>(std::max(0, map.rows)) * static_cast<std::size_t>(std::max(0, map.cols));
    if (count == 0 || cells.size() < count) return "no values";
    std::size_t smallest = count, largest = count, left_out = 0;
    for (std::size_t i = 0; i < count; ++i) {
      left_out += std::isnan(cells[i]) && map.nan_is_blank ? 0 : !std::isfinite(cells[i]);
      if (!std::isfinite(cells[i])) continue;
      if (largest == count || cells[i] > cells[largest]) largest = i;
      if (smallest == count || cells[i] < cells[smallest]) smallest = i;
    }
    const std::string size = std::to_string(map.rows) + " × " + std::to_string(map.cols) + " cells";
    if (largest == count) return size + ", none with a value";
    const auto columns = static_cast<std::size_t>(map.cols);
    const auto name = [](const std::vector<std::string>& names, const std::string& axis, std::size_t at) {
      return axis + " " + (at < names.size() ? names[at] : std::to_string(at));
    };
    const auto cell_name = [&](std::size_t at) {
      const std::string row = name(map.row_labels, figure.y.label.empty() ? "row" : figure.y.label, at / columns);
      const std::string column = name(map.col_labels, figure.x.label.empty() ? "column" : figure.x.label, at % columns);
      return map.rows == 1 ? column : map.cols == 1 ? row : row + ", " + column;
    };
    const std::string low = map.map == ColourMap::diverging && cells[smallest] < 0 ? " at " + cell_name(smallest) : "";
    return size + " from " + text_of(cells[smallest]) + low + " to " + text_of(cells[largest]) + " at " +
           cell_name(largest) + left_out_text(left_out);
  }
};

bool is_quiet(const Series& series) {
  const auto* line = std::get_if<Line>(&series);
  return line && line->is_quiet;
}

/// Adds the parts of "1 ska · head 0" that the text does not contain yet.
void add_parts(std::string& text, std::string_view parts) {
  constexpr std::string_view between = " · ";
  while (!parts.empty()) {
    const std::string_view part = parts.substr(0, parts.find(between));
    parts.remove_prefix(std::min(part.size() + between.size(), parts.size()));
    if (text.find(part) == text.npos) text += (text.empty() ? "" : ", ") + std::string(part);
  }
}

/// The heading, or title and subject; then the parts of the subtitle that add to them.
std::string head_of(const Figure& figure) {
  std::string text;
  add_parts(text, figure.heading.empty() ? figure.title : figure.heading);
  if (figure.heading.empty()) add_parts(text, figure.subject);
  add_parts(text, figure.subtitle);
  return text + ".";
}

/// Reference lines and events that have a name.
std::string marks_of(const Figure& figure) {
  std::vector<std::string> marks;
  for (const ReferenceLine& line : figure.reference_lines) {
    const Axis& axis = line.orientation == Orientation::horizontal ? figure.y : figure.x;
    if (!line.label.empty()) marks.push_back(line.label + " at " + place_of(axis, line.at) + unit_of(axis));
  }
  for (const EventMark& event : figure.events) marks.push_back(event.text + " at " + named_place(figure.x, event.x));
  if (marks.empty()) return "";
  std::string text = " Marked: ";
  for (std::size_t i = 0; i < std::min(marks.size(), max_marks); ++i) text += (i > 0 ? "; " : "") + marks[i];
  return text + (marks.size() > max_marks ? "; " + std::to_string(marks.size() - max_marks) + " more." : ".");
}

}  // namespace

std::string summary_of(const Figure& figure) {
  std::string text = head_of(figure);
  const Words words{figure};
  if (words.x.low < words.x.high) text += " Over " + span_of(figure.x, words.x) + ":";
  std::size_t told = 0, quiet = 0;
  for (const Series& series : figure.series) {
    if (is_quiet(series)) {
      ++quiet;
      continue;
    }
    if (++told > max_series) continue;
    const std::string& name = series_name(series);
    const bool is_named = !name.empty() && name != figure.title;
    text += " " + (is_named ? name + ": " : "") + std::visit(words, series) + ".";
  }
  if (told > max_series) text += " " + std::to_string(told - max_series) + " more.";
  if (told + quiet == 0) text += " Nothing is shown yet.";
  return text + marks_of(figure);
}

}  // namespace afterglow
