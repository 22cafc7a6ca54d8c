// Reads figures as numbers.
#include "views/plots/plot_numbers.h"

#include <algorithm>
#include <cmath>

#include "core/figure/decimate.h"
#include "core/figure/readout.h"
#include "core/io/number_text.h"
#include "views/plots/plot_kinds.h"

namespace afterglow {
namespace {

struct Points {
  std::vector<double> x, y;

  void add(double to_x, double to_y) {
    x.push_back(to_x);
    y.push_back(to_y);
  }
};

Points points_of(const Curve& curve) {
  Points points;
  const std::size_t size = curve.pyramid ? curve.pyramid->size() : std::min(curve.x.size(), curve.y.size());
  for (std::size_t i = 0; i < size; ++i)
    curve.pyramid ? points.add(curve.pyramid->x(i), curve.pyramid->y(i)) : points.add(curve.x[i], curve.y[i]);
  return points;
}

Points points_of(const Series& series) {
  Points points;
  if (const auto* line = std::get_if<Line>(&series)) {
    const Curve& raw = line->raw;
    const bool has_raw = raw.pyramid || !raw.x.empty();  // a smoothed curve is not a number
    return points_of(has_raw ? raw : line->curve);
  }
  if (const auto* scatter = std::get_if<Scatter>(&series)) {
    for (const ScatterPoint& point : scatter->points) points.add(point.x, point.y);
  }
  if (const auto* bars = std::get_if<Bars>(&series)) {
    for (const Bar& bar : bars->bars) points.add(bar.x, bar.value);
  }
  if (const auto* map = std::get_if<HeatMap>(&series)) {
    for (std::size_t i = 0; i < map->cells.size(); ++i) points.add(static_cast<double>(i), map->cells[i]);
  }
  return points;
}

std::string prefix_of(const Figure& figure, const Series& series) {
  const std::string word = name_word(stem_of(series_name(series)));
  return figure.id + "." + (word.empty() ? "all" : word) + ".";
}

/// Non-finite numbers are left out, such as a causal map's empty half.
void add_statistics(const std::string& prefix, const Points& points, std::vector<NamedNumber>& numbers) {
  std::vector<double> finite;
  std::ranges::copy_if(points.y, std::back_inserter(finite), [](double y) { return std::isfinite(y); });
  numbers.push_back({prefix + "count", {static_cast<double>(points.y.size())}});
  if (finite.empty()) return;
  double sum = 0;
  for (const double y : finite) sum += y;
  const auto [least, greatest] = std::ranges::minmax(finite);
  numbers.push_back({prefix + "first", {finite.front()}});
  numbers.push_back({prefix + "last", {finite.back()}});
  numbers.push_back({prefix + "min", {least}});
  numbers.push_back({prefix + "max", {greatest}});
  numbers.push_back({prefix + "mean", {sum / static_cast<double>(finite.size())}});
}

/// FIGURE.SERIES.at.X: the value at the nearest x.
std::optional<Quantity> value_at(const Figure& figure, const std::string& name) {
  for (const Series& series : figure.series) {
    const std::string prefix = prefix_of(figure, series) + "at.";
    if (!name.starts_with(prefix)) continue;
    const std::optional<double> x = parse_number(name.substr(prefix.size()));
    const Points points = points_of(series);
    if (!x || points.x.empty()) continue;
    const auto nearest = std::ranges::min_element(points.x, {}, [&](double place) { return std::abs(place - *x); });
    return Quantity{points.y[static_cast<std::size_t>(nearest - points.x.begin())]};
  }
  return std::nullopt;
}

/// Figures are named after their plot, or begin with the same word.
bool may_hold(const PlotKind& kind, std::string_view figure) {
  return first_word(kind.id.substr(0, kind.id.find('_'))) == figure.substr(0, figure.find('_'));
}

/// Figures with a name of their own may belong to any plot.
bool is_known_figure(std::string_view figure) {
  return std::ranges::any_of(plot_kinds(), [&](const PlotKind& kind) { return may_hold(kind, figure); });
}

std::optional<Quantity> find_in_figures(const std::string& name, const Observation& observation,
                                        const Selection& selection, CurveStore& curves) {
  const std::string_view id = first_word(name);
  const bool is_known = is_known_figure(id);
  for (const PlotKind& kind : plot_kinds()) {
    if (!kind.needs_model || !fits(kind, observation.model) || (is_known && !may_hold(kind, id))) continue;
    for (const Figure& figure : kind.prepare(observation, selection, curves)) {
      if (figure.id != id) continue;
      const std::optional<Quantity> found = number_in(numbers_of(figure), name);
      return found ? found : value_at(figure, name);
    }
  }
  return std::nullopt;
}

}  // namespace

std::vector<NamedNumber> numbers_of(const Figure& figure) {
  std::vector<NamedNumber> numbers;
  for (const Series& series : figure.series) {
    const std::string prefix = prefix_of(figure, series);
    add_statistics(prefix, points_of(series), numbers);
    const auto* scatter = std::get_if<Scatter>(&series);
    if (!scatter) continue;
    for (const ScatterPoint& point : scatter->points) {
      if (point.id.empty()) continue;
      numbers.push_back({figure.id + "." + name_word(point.id) + ".x", {point.x}});
      numbers.push_back({figure.id + "." + name_word(point.id) + ".y", {point.y}});
    }
  }
  return numbers;
}

std::optional<Quantity> find_number(const std::string& name, const Observation& observation, const Selection& selection,
                                    CurveStore& curves) {
  const NumberFamily* family = family_of(name);
  std::vector<NamedNumber> numbers;
  (family ? *family : number_families().back()).list(observation, numbers);
  std::optional<Quantity> found = number_in(numbers, name);
  if (!found && name.find('.') != std::string::npos) found = find_in_figures(name, observation, selection, curves);
  const bool is_none = found && found->word.empty() && std::isnan(found->number);
  return is_none ? std::nullopt : found;
}

std::vector<NamedNumber> all_numbers(const Observation& observation, const Selection& selection, CurveStore& curves) {
  std::vector<NamedNumber> numbers = numbers_of(observation);
  for (const PlotKind& kind : plot_kinds()) {
    if (!kind.needs_model || !fits(kind, observation.model)) continue;
    for (const Figure& figure : kind.prepare(observation, selection, curves))
      std::ranges::copy(numbers_of(figure), std::back_inserter(numbers));
  }
  return numbers;
}

AnalysisSet analyses_of_number(const std::string& name) {
  if (const NumberFamily* family = family_of(name)) return family->analyses;
  AnalysisSet analyses = 0;
  if (name.find('.') == std::string::npos) return analyses;
  for (const PlotKind& kind : plot_kinds()) {
    if (may_hold(kind, first_word(name))) analyses |= kind.analyses & all_analyses;
  }
  return is_known_figure(first_word(name)) ? analyses : all_analyses;
}

void LargeNumber::take(const std::string& name, const Observation& observation, const Selection& selection,
                       CurveStore& curves, bool is_open) {
  constexpr std::string_view of_head = "probe.head.";
  const std::string plain_name = name.starts_with(of_head) ? name.substr(name.find('.') + 1) : name + ".plain";
  const auto plain = find_number(plain_name, observation, selection, curves);
  const auto found = find_number(name, observation, selection, curves);
  if (!found && !plain) return;
  now = (found ? found : plain)->number;
  const bool is_changed = plain && plain->number != now;
  if (is_changed || !before || is_open) before = is_changed ? plain->number : now;
}

std::string LargeNumber::words(const std::string& name, bool is_open, bool has_asked) const {
  constexpr std::array shares{"accuracy", "probability", "probe.answer", "explained"};
  const bool is_share = std::ranges::any_of(shares, [&](const char* one) { return name.find(one) != name.npos; });
  const auto text = [&](double value) {
    return is_share ? number_text(std::round(100 * value)) + " %" : number_text(value, 3);
  };
  if (!before || !now) return "?";
  const std::string from = text(*before), to = is_open ? "?" : text(*now);
  return from == to && !has_asked ? to : from + " → " + to;
}

}  // namespace afterglow
