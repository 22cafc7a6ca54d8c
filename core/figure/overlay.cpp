// Visits the series of B, and notes for each where it is farthest from A's.
#include "core/figure/overlay.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <tuple>

#include "core/figure/axis.h"
#include "core/figure/decimate.h"
#include "core/figure/layout.h"
#include "core/figure/readout.h"

namespace afterglow {
namespace {

constexpr std::size_t most_samples = 512;  // points of a curve that are compared
constexpr double bar_end = 4;              // radius of the dot where a bar of B would end

std::string named_b(const std::string& name) { return "B: " + name; }

bool is_same(const Axis& a, const Axis& b) { return a.label == b.label && a.unit == b.unit; }

std::string tick_or_number(const Axis& axis, double at) {
  return (axis.ticks.empty() ? axis.label + " " : "") + place_text(axis, at, 4);
}

/// The ranges that the figures fix, united, so that nothing of B is cut off.
void unite(std::optional<Range>& a, const std::optional<Range>& b) {
  if (a && b) a = Range{std::min(a->low, b->low), std::max(a->high, b->high)};
}

class Overlay {
 public:
  Overlay(Figure& a, const Figure& b) : a_(a), b_(b), of_a_(a.series) {}

  /// Returns the beginning of the subtitle.
  std::string draw() {
    // What another program has logged under the same name has no unit.
    const bool is_logged = a_.id == b_.id && a_.y.unit.empty() != b_.y.unit.empty();
    if (!is_same(a_.x, b_.x) || !(is_same(a_.y, b_.y) || is_logged)) return "A alone, because B has other axes";
    unite_ticks();
    unite(a_.x.range, b_.x.range);
    unite(a_.y.range, b_.y.range);
    for (const Series& series : b_.series) std::visit(*this, series);
    if (largest_ < 0) return "B is outlined";  // at no place both have values
    return largest_ > 0 ? "B is outlined, and differs most at " + where_
                        : "B is outlined, and equal where both have values";
  }

  void operator()(const Line& line) {
    if (line.is_quiet) return;
    if (const Line* other = counterpart(line)) compare(CurveView(other->curve), CurveView(line.curve), line.name);
    Line& drawn = added(line);
    drawn.raw = {};
    drawn.dash = Dash::solid;
  }

  void operator()(const Bars& bars) {
    const Bars* other = counterpart(bars);
    for (Bar& bar : added(bars).bars) {
      bar.x = place_of(bar.x);
      bar.before = std::nan("");
      if (!other) continue;
      const auto same = std::ranges::find(other->bars, bar.x, &Bar::x);
      if (same != other->bars.end()) note(same->value, bar.value, tick_or_number(a_.x, bar.x));
    }
  }

  void operator()(const Scatter& scatter) {
    Scatter& drawn = added(scatter);
    drawn.trails.clear();
    for (ScatterPoint& point : drawn.points) {
      point.id = named_b(point.id);
      point.ring = false;
      point.label.clear();
      point.mode = {};
      if (point.presence == 0) {  // of a bar, whose line is not drawn again
        point.radius = bar_end;
        point.presence = 1;
      }
    }
    if (const Scatter* other = counterpart(scatter)) match(*other, scatter, drawn);
  }

  void operator()(const HeatMap&) {}

 private:
  /// The series of A with this name up to its numbers.
  template <class Kind>
  const Kind* counterpart(const Kind& kind) const {
    for (const Series& series : of_a_) {
      const auto* same = std::get_if<Kind>(&series);
      if (same && stem_of(same->name) == stem_of(kind.name)) return same;
    }
    return nullptr;
  }

  template <class Kind>
  Kind& added(const Kind& kind) {
    Kind& drawn = std::get<Kind>(a_.series.emplace_back(kind));
    drawn.name = named_b(kind.name);
    drawn.is_outlined = true;
    return drawn;
  }

  /// Gives the categories of B's bars the places of A's of the same name, and new places at the end. Other ticks are
  /// numbers or tokens: those of the longer axis stay.
  void unite_ticks() {
    const bool has_bars = std::ranges::any_of(b_.series, [](auto& one) { return std::holds_alternative<Bars>(one); });
    if (!has_bars && a_.x.range && b_.x.range && b_.x.range->high > a_.x.range->high) a_.x.ticks = b_.x.ticks;
    if (!has_bars || a_.x.ticks.empty()) return;
    for (const AxisTick& tick : b_.x.ticks) {
      const auto same = std::ranges::find(a_.x.ticks, tick.label, &AxisTick::label);
      const bool is_new = same == a_.x.ticks.end();
      const double at = is_new ? a_.x.ticks.back().at + 1 : same->at;
      places_.emplace_back(tick.at, at);
      if (!is_new) continue;
      a_.x.ticks.push_back({at, tick.label});
      if (a_.x.range) a_.x.range->high = std::max(a_.x.range->high, at + 0.6);
    }
  }

  double place_of(double x) const {
    const auto moved = std::ranges::find(places_, x, &std::pair<double, double>::first);
    return moved == places_.end() ? x : moved->second;
  }

  void compare(const CurveView& a, const CurveView& b, const std::string& name) {
    if (!a.is_sorted() || !b.is_sorted()) return;
    const std::size_t stride = std::max<std::size_t>(1, a.size() / most_samples);
    for (std::size_t i = 0; i < a.size(); i += stride) {
      const std::size_t j = b.first_not_below(a.x(i));
      if (j < b.size() && b.x(j) == a.x(i))
        note(a.y(i), b.y(j), std::string(stem_of(name)) + ", " + tick_or_number(a_.x, a.x(i)));
    }
  }

  /// Pairs the modes from the nearest pair on, and other dots by their ids.
  void match(const Scatter& a, const Scatter& b, Scatter& drawn) {
    std::vector<std::tuple<double, std::size_t, std::size_t>> pairs;
    for (std::size_t i = 0; i < a.points.size(); ++i) {
      for (std::size_t j = 0; j < b.points.size(); ++j) {
        const ScatterPoint &from = a.points[i], &to = b.points[j];
        const bool are_modes = a_.equal_aspect && from.mode.number >= 0;
        if (are_modes ? to.mode.number >= 0 : !from.id.empty() && from.id == to.id)
          pairs.emplace_back(std::hypot(to.x - from.x, to.y - from.y), i, j);
      }
    }
    std::ranges::sort(pairs);
    std::set<std::size_t> used_a, used_b;
    for (const auto& [distance, i, j] : pairs) {
      if (!std::isfinite(distance) || used_a.contains(i) || used_b.contains(j)) continue;
      used_a.insert(i);
      used_b.insert(j);
      const ScatterPoint& from = a.points[i];
      ScatterPoint& to = drawn.points[j];
      to.ink = from.ink;
      to.mode = from.mode;
      to.id = named_b(from.id);
      drawn.trails.push_back({{from.x, to.x}, {from.y, to.y}, from.ink});
      const auto number = [&](const ScatterPoint& dot) {
        return a_.equal_aspect ? std::hypot(dot.x, dot.y) : from.presence == 0 ? dot.x : dot.y;
      };
      note(number(from), number(to), from.id, distance);
    }
  }

  /// Keeps the largest difference, in decades on a logarithmic axis; `size` where the two numbers do not give it.
  void note(double a, double b, const std::string& place, std::optional<double> size = {}) {
    const bool is_log = a_.y.scale == Scale::log && a > 0 && b > 0;
    const double difference = size.value_or(is_log ? std::abs(std::log10(b / a)) : std::abs(b - a));
    if (!std::isfinite(difference) || difference <= largest_) return;
    largest_ = difference;
    where_ = place + ": " + number_text(a, 3) + " → " + number_text(b, 3);
  }

  Figure& a_;
  const Figure& b_;
  std::vector<Series> of_a_;                       ///< as they were before those of B were added
  std::vector<std::pair<double, double>> places_;  ///< of B's categories, and where they are drawn
  double largest_ = -1;
  std::string where_;
};

template <class SomeFigure>
auto map_of(SomeFigure& figure) -> decltype(std::get_if<HeatMap>(&figure.series.front())) {
  for (auto& series : figure.series) {
    if (auto* map = std::get_if<HeatMap>(&series)) return map;
  }
  return nullptr;
}

std::string joined(const std::string& found, const std::string& subtitle) {
  return found + (subtitle.empty() ? "" : " · " + subtitle);
}

/// A's map with the numbers of B - A, around 0.
HeatMap difference_of(const HeatMap& a, const HeatMap& b) {
  const bool is_log = a.value.scale == Scale::log;
  std::vector<double> cells;
  double largest = 0;
  for (std::size_t i = 0; i < a.cells.size(); ++i) {
    cells.push_back(is_log ? std::log10(b.cells[i] / a.cells[i]) : b.cells[i] - a.cells[i]);
    if (std::isfinite(cells.back())) largest = std::max(largest, std::abs(cells.back()));
  }
  HeatMap map = a;
  map.cells = std::move(cells);
  map.map = ColourMap::diverging;
  map.is_rough.clear();
  map.value = {.label = is_log ? "log_10 of B / A" : "B − A", .unit = is_log ? "" : a.value.unit};
  map.value.range = largest > 0 ? Range{-largest, largest} : Range{-1, 1};
  return map;
}

/// Equal numbers have equal colours in both.
void share_colours(HeatMap& a, HeatMap& b) {
  if (!is_same(a.value, b.value) || a.value.scale != b.value.scale) return;
  const Range of_a = color_range(a, {}), of_b = color_range(b, {});
  a.value.range = Range{std::min(of_a.low, of_b.low), std::max(of_a.high, of_b.high)};
  b.value = a.value;
}

/// Adds a figure after all of A's; `found` begins its subtitle.
Figure& add_beside(std::vector<Figure>& more, Figure figure, const Figure& a, const std::string& suffix,
                   const std::string& found) {
  const std::string title = suffix == "_b" ? "B: " : "B − A: ";
  figure.id = a.id + suffix;
  figure.title = title + a.title;
  figure.heading = title + a.heading;
  figure.subtitle = joined(found, figure.subtitle);
  return more.emplace_back(std::move(figure));
}

/// Adds the difference, if the sizes allow it, and B's map, or replaces A's map by the difference; returns the
/// beginning of A's subtitle.
std::string add_maps(Figure& a, Figure b, std::vector<Figure>& more, bool only_difference) {
  HeatMap &of_a = *map_of(a), &of_b = *map_of(b);
  std::string found = "B has " + std::to_string(of_b.rows) + " × " + std::to_string(of_b.cols) + " cells";
  if (is_complete(of_a) && is_complete(of_b) && of_a.rows == of_b.rows && of_a.cols == of_b.cols) {
    HeatMap difference = difference_of(of_a, of_b);
    share_colours(of_a, of_b);
    found = "B − A is at most " + number_text(difference.value.range->high, 3);
    Figure& figure = add_beside(more, a, a, "_difference", found);
    figure.series = {std::move(difference)};
    figure.table.clear();
    figure.text_labels.clear();
    if (only_difference) {
      std::swap(a, more.back());
      a.subtitle = std::exchange(more.back(), {}).subtitle;
      more.pop_back();
      return found;
    }
  }
  add_beside(more, std::move(b), a, "_b", found);
  return found;
}

/// Adds B's figure with the axis of A's; returns the beginning of A's subtitle.
std::string add_rows(Figure& a, Figure b, std::vector<Figure>& more) {
  if (is_same(a.x, b.x)) unite(a.x.range, b.x.range), b.x.range = a.x.range;
  add_beside(more, std::move(b), a, "_b", "");
  return "B has other rows and follows";
}

}  // namespace

std::vector<Figure> overlaid_figures(std::vector<Figure> a, const std::vector<Figure>& b, const std::string& b_name,
                                     const std::string& why_none, bool only_difference) {
  std::vector<Figure> more;
  for (std::size_t i = 0; i < a.size(); ++i) {
    Figure& figure = a[i];
    const auto same = std::ranges::find(b, figure.id, &Figure::id);
    const Figure* other = same != b.end() ? &*same : a.size() == b.size() ? &b[i] : nullptr;
    const bool are_maps = other && map_of(figure) && map_of(*other);
    const std::string found =
        !other     ? "A alone: " + (b.empty() ? why_none : "B has nothing like it")
        : are_maps ? add_maps(figure, *other, more, only_difference)
        : !std::ranges::equal(figure.y.ticks, other->y.ticks, {}, &AxisTick::label, &AxisTick::label)
            ? add_rows(figure, *other, more)
            : Overlay(figure, *other).draw();
    figure.subtitle = joined(found, figure.subtitle);
    figure.heading += " · B: " + b_name;
    if (other) figure.provenance += " · B: " + other->provenance;
  }
  std::ranges::move(more, std::back_inserter(a));
  return a;
}

}  // namespace afterglow
