// Figures before anything is drawn on them, plain lines, ticks, and dots of modes.
#pragma once
#include <complex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/figure/figure.h"
#include "core/io/named.h"

namespace afterglow {

/// A figure with its axes and without series.
inline Figure sheet(std::string id, std::string title, std::string subtitle, Axis x, Axis y,
                    LabelPlacement labels = LabelPlacement::automatic) {
  Figure figure{std::move(id), std::move(title), std::move(subtitle)};
  figure.x = std::move(x);
  figure.y = std::move(y);
  figure.labels = labels;
  return figure;
}

inline Line line_through(std::string name, Values x, Values y, Ink ink, Dash dash = Dash::automatic, double width = 2) {
  return Line{.name = std::move(name),
              .curve = {std::move(x), std::move(y), nullptr},
              .ink = ink,
              .dash = dash,
              .width = width};
}

/// A line across the figure at y, and one at x.
inline void add_level(Figure& figure, double y, std::string label, Ink ink, Dash dash) {
  figure.reference_lines.push_back({Orientation::horizontal, y, std::move(label), ink, dash});
}
inline void add_moment(Figure& figure, double x, std::string label, Ink ink, Dash dash) {
  figure.reference_lines.push_back({Orientation::vertical, x, std::move(label), ink, dash});
}

/// first, first + 1, ..: the places of numbered values.
inline std::vector<double> counted(std::size_t count, double first = 0) {
  std::vector<double> places;
  for (std::size_t i = 0; i < count; ++i) places.push_back(first + static_cast<double>(i));
  return places;
}

inline Line counted_line(std::string name, std::vector<double> values, double first, Ink ink,
                         Dash dash = Dash::automatic, double width = 2) {
  std::vector<double> places = counted(values.size(), first);
  return line_through(std::move(name), std::move(places), std::move(values), ink, dash, width);
}

/// A tick for each label, at 0, 1, 2 ..
inline std::vector<AxisTick> ticks_of(const std::vector<std::string>& labels) {
  std::vector<AxisTick> ticks;
  for (const std::string& label : labels) ticks.push_back({static_cast<double>(ticks.size()), label});
  return ticks;
}

/// The dot of a mode, with its name as id: "mode 3", or "pair 3" of a Koopman MLP.
inline ScatterPoint mode_dot(DotMode mode, std::complex<double> place, double radius, Ink ink, bool is_chosen) {
  const std::string name = (mode.is_pair ? "pair " : "mode ") + std::to_string(mode.number);
  return {place.real(), place.imag(), radius, ink, is_chosen, name, "", 1, mode};
}

/// What a line has of its own; the rest stays.
struct LineStyle {
  std::optional<Ink> ink{};
  std::optional<Dash> dash{};
  std::optional<double> width{};
  std::optional<Marker> marker{};
  bool is_quiet = false;
};

inline Line styled(Line line, const LineStyle& style) {
  line.ink = style.ink.value_or(line.ink);
  line.dash = style.dash.value_or(line.dash);
  line.width = style.width.value_or(line.width);
  line.marker = style.marker.value_or(line.marker);
  line.is_quiet = line.is_quiet || style.is_quiet;
  return line;
}

}  // namespace afterglow
