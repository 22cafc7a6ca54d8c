// Reference lines and circles, events, notes and cursors.
#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "core/figure/math/math_text.h"
#include "core/figure/painting/painter.h"
#include "core/figure/readout.h"

namespace afterglow {
namespace {

constexpr int circle_steps = 256;
constexpr double max_true_circle = 2000;  // canvas units; canvases draw larger circles with visible corners

Dash dash_of(Dash dash, Ink ink) { return dash == Dash::automatic ? ink_dash(ink) : dash; }

// The arc that can be seen from the plot: all of it, or the angles under which the plot's corners appear from a centre
// outside.
std::pair<double, double> visible_arc(const Rect& plot, Point centre) {
  constexpr double pi = std::numbers::pi;
  if (plot.contains(centre)) return {-pi, pi};
  const double middle = std::atan2(plot.y + plot.height / 2 - centre.y, plot.x + plot.width / 2 - centre.x);
  double low = 0, high = 0;
  for (const Point corner :
       {Point{plot.x, plot.y}, {plot.right(), plot.y}, {plot.x, plot.bottom()}, {plot.right(), plot.bottom()}}) {
    const double turn = std::remainder(std::atan2(corner.y - centre.y, corner.x - centre.x) - middle, 2 * pi);
    low = std::min(low, turn);
    high = std::max(high, turn);
  }
  return {middle + low, middle + high};
}

void draw_circle(const Painter& p, const ReferenceCircle& circle) {
  const AxisTransform& x = p.layout.x;
  const AxisTransform& y = p.layout.y;
  const Stroke stroke{ink_color(p.theme, circle.ink), 1.1 * p.m.line, dash_of(circle.dash, circle.ink)};
  const Point centre{x.to_canvas(circle.x), y.to_canvas(circle.y)};
  const double across = x.to_canvas(circle.x + circle.radius) - centre.x,
               up = centre.y - y.to_canvas(circle.y + circle.radius);
  if (!std::isfinite(centre.x + centre.y + across + up)) return;
  const bool is_round = std::abs(across - up) <= 1e-3 * std::abs(across);
  if (is_round && across <= max_true_circle) return p.canvas.stroke_circle(centre, across, stroke);
  const auto whole = std::pair(-std::numbers::pi, std::numbers::pi);
  const auto [first, last] = is_round ? visible_arc(p.layout.plot, centre) : whole;
  std::vector<double> xs, ys;
  for (int i = 0; i <= circle_steps; ++i) {
    const double angle = first + (last - first) * i / circle_steps;
    xs.push_back(circle.x + circle.radius * std::cos(angle));
    ys.push_back(circle.y - circle.radius * std::sin(angle));
  }
  const CanvasCurve curve = thinned_curve(CurveView(xs, ys), x, y, 1e-3);
  for (std::size_t i = 0; i < curve.pieces(); ++i) p.canvas.polyline(curve.piece(i), stroke);
}

std::optional<std::array<Point, 2>> across_plot(const Painter& p, Orientation orientation, double at) {
  const Rect& plot = p.layout.plot;
  const bool is_vertical = orientation == Orientation::vertical;
  const double place = (is_vertical ? p.layout.x : p.layout.y).to_canvas(at);
  const double low = is_vertical ? plot.x : plot.y, high = is_vertical ? plot.right() : plot.bottom();
  if (!(place >= low - 0.5 && place <= high + 0.5)) return std::nullopt;
  if (is_vertical) return std::array<Point, 2>{{{place, plot.bottom()}, {place, plot.y}}};
  return std::array<Point, 2>{{{plot.x, place}, {plot.right(), place}}};
}

// Text on a background of the panel's colour, so that it is readable over ink.
void backed_text(const Painter& p, const Rect& rect, const std::string& text, Color color, FontFace face,
                 bool needs_back) {
  if (needs_back) p.canvas.fill_rect(rect, 0, faded(p.theme.panel, 0.82));
  p.text({rect.x, rect.y + ascent_of_font * p.m.small}, text, color, p.m.small, Anchor::start, face);
}

// The first candidate without ink, or the one that covers least.
Rect best_place(const std::vector<Rect>& candidates, const Occupancy& ink) {
  return *std::ranges::min_element(
      candidates, [&](const Rect& a, const Rect& b) { return ink.inked_cells(a) < ink.inked_cells(b); });
}

Rect kept_inside(Rect rect, const Rect& area) {
  rect.x = std::max(area.x, std::min(rect.x, area.right() - rect.width));
  rect.y = std::max(area.y, std::min(rect.y, area.bottom() - rect.height));
  return rect;
}

/// The best place for the label of a line; nullopt where the line has no label or is not visible.
std::optional<Rect> place_of_label(const Painter& p, const ReferenceLine& line, const Occupancy& ink) {
  const auto ends = across_plot(p, line.orientation, line.at);
  if (!ends || line.label.empty()) return std::nullopt;
  const Rect& plot = p.layout.plot;
  const double width = p.width(line.label, p.m.small), height = (ascent_of_font + descent_of_font) * p.m.small,
               air = 0.35 * p.m.text;
  std::vector<Rect> candidates;
  for (const double along : {1.0, 0.0, 0.5, 0.75, 0.25, 0.875, 0.125, 0.625, 0.375}) {
    if (line.orientation == Orientation::horizontal) {
      const double x = plot.x + air + along * (plot.width - width - 2 * air), y = (*ends)[0].y;
      for (const double top : {y - height - 0.8 * air, y + 0.8 * air})
        candidates.push_back(kept_inside({x, top, width, height}, plot));
    } else {
      const double y = plot.y + air + (1 - along) * (plot.height - height - 2 * air), x = (*ends)[0].x;
      for (const double left : {x + air, x - air - width})
        candidates.push_back(kept_inside({left, y, width, height}, plot));
    }
  }
  return best_place(candidates, ink);
}

void draw_reference_label(const Painter& p, const ReferenceLine& line, Occupancy& ink) {
  const std::optional<Rect> place = place_of_label(p, line, ink);
  if (!place) return;
  backed_text(p, *place, line.label, ink_color(p.theme, line.ink), FontFace::regular, !ink.is_free(*place));
  ink.add_rect(*place);
}

/// Places for a label of this size, in eight directions, with its edge `away` from the dot.
std::vector<Rect> places_around(const DrawnPoint& dot, double away, double width, double height) {
  std::vector<Rect> places;
  for (const auto& [across, up] : {std::pair{1, 0}, {-1, 0}, {0, -1}, {0, 1}, {1, -1}, {1, 1}, {-1, -1}, {-1, 1}}) {
    const double x = dot.place.x + across * (away + width / 2) - width / 2,
                 y = dot.place.y + up * (away + height / 2) - height / 2;
    places.push_back({x, y, width, height});
  }
  return places;
}

/// The nearest free place around the dot, on rings of growing radius.
std::optional<Rect> place_off(const Painter& p, const DrawnPoint& dot, double width, double height,
                              const Occupancy& ink) {
  const Rect& plot = p.layout.plot;
  const double farthest = std::hypot(plot.width, plot.height), step = 10 * p.m.unit;
  for (double away = dot.radius + 1.2 * step; away < farthest; away += step) {
    for (const Rect& place : places_around(dot, away, width, height)) {
      if (is_inside(place, plot) && ink.is_free(place)) return place;
    }
  }
  return std::nullopt;
}

void draw_leader(const Painter& p, const DrawnPoint& dot, const Rect& label) {
  const Point end{std::clamp(dot.place.x, label.x, label.right()), std::clamp(dot.place.y, label.y, label.bottom())};
  const double length = std::hypot(end.x - dot.place.x, end.y - dot.place.y),
               start = (dot.radius + 4 * p.m.unit) / std::max(length, 1e-9);
  if (start >= 1) return;
  const Point leader[] = {{dot.place.x + start * (end.x - dot.place.x), dot.place.y + start * (end.y - dot.place.y)},
                          end};
  p.canvas.polyline(leader, {faded(p.theme.text, 0.6), 0.8 * p.m.line, Dash::solid});
}

// Next to the dot; where that has ink, at the nearest free place with a line to the dot.
void draw_point_label(const Painter& p, const DrawnPoint& dot, const std::string& text, Occupancy& ink) {
  const double width = p.width(text, p.m.small), height = (ascent_of_font + descent_of_font) * p.m.small;
  std::vector<Rect> near = places_around(dot, dot.radius + 5 * p.m.unit, width, height);
  for (Rect& place : near) place = kept_inside(place, p.layout.plot);
  Rect place = best_place(near, ink);
  if (!ink.is_free(place)) {
    if (const std::optional<Rect> off = place_off(p, dot, width, height, ink)) {
      place = *off;
      draw_leader(p, dot, place);
    }
  }
  backed_text(p, place, text, p.theme.text, FontFace::regular, !ink.is_free(place));
  ink.add_rect(place);
}

void draw_measuring_cursor(const Painter& p, double at) {
  if (const auto ends = across_plot(p, Orientation::vertical, at))
    p.canvas.polyline(*ends, {p.theme.text, p.m.line, Dash::dotted});
}

/// A tag with the cursor's letter at the upper end of its line; the user drags it.
void draw_cursor_tag(const Painter& p, double at, const std::string& letter) {
  const auto ends = across_plot(p, Orientation::vertical, at);
  if (!ends) return;
  const double width = 1.5 * p.m.text, height = 1.35 * p.m.text;
  const Rect& plot = p.layout.plot;
  const Rect tag{std::clamp((*ends)[0].x - width / 2, plot.x, std::max(plot.x, plot.right() - width)), plot.y, width,
                 height};
  p.canvas.fill_rect(tag, 0.25 * p.m.text, p.theme.text);
  p.text({tag.x + width / 2, tag.y + height / 2 + 0.36 * p.m.text}, letter, p.theme.panel, p.m.text, Anchor::middle,
         FontFace::semibold);
}

}  // namespace

void draw_reference_shapes(const Painter& p) {
  for (const ReferenceCircle& circle : p.figure.reference_circles) draw_circle(p, circle);
  for (const ReferenceLine& line : p.figure.reference_lines) {
    const auto ends = across_plot(p, line.orientation, line.at);
    if (ends)
      p.canvas.polyline(*ends, {faded(ink_color(p.theme, line.ink), 0.8), p.m.line, dash_of(line.dash, line.ink)});
  }
}

void reserve_reference_labels(const Painter& p, Occupancy& ink) {
  for (const ReferenceLine& line : p.figure.reference_lines) {
    if (const std::optional<Rect> place = place_of_label(p, line, ink)) ink.add_rect(*place);
  }
}

void draw_reference_labels(const Painter& p, Occupancy& ink) {
  for (const ReferenceLine& line : p.figure.reference_lines) draw_reference_label(p, line, ink);
}

void draw_point_labels(const Painter& p, const FigureGeometry& geometry, Occupancy& ink) {
  for (const DrawnPoint& drawn : geometry.points) {
    const ScatterPoint& point = std::get<Scatter>(p.figure.series[drawn.series]).points[drawn.point];
    if (!point.label.empty()) draw_point_label(p, drawn, point.label, ink);
  }
}

void draw_text_labels(const Painter& p, Occupancy& ink) {
  for (const TextLabel& label : p.figure.text_labels) {
    const Point at{p.layout.x.to_canvas(label.x), p.layout.y.to_canvas(label.y)};
    if (!p.layout.plot.contains(at)) continue;
    const double width = p.width(label.text, p.m.small);
    const double shift = shift_of(label.anchor, width);
    const double drop = label.is_centred ? (ascent_of_font - descent_of_font) * p.m.small / 2 : 0.0;
    const double height = (ascent_of_font + descent_of_font) * p.m.small;
    const Rect rect =
        kept_inside({at.x - shift, at.y + drop - ascent_of_font * p.m.small, width, height}, p.layout.area);
    backed_text(p, rect, label.text, ink_color(p.theme, label.ink), FontFace::regular, false);
    ink.add_rect(rect);
  }
}

void draw_events(const Painter& p, Occupancy& ink) {
  const Rect& plot = p.layout.plot;
  const double air = 0.35 * p.m.text, height = (ascent_of_font + descent_of_font) * p.m.small;
  for (const EventMark& event : p.figure.events) {
    const auto ends = across_plot(p, Orientation::vertical, event.x);
    if (!ends) continue;
    p.canvas.polyline(*ends, {ink_color(p.theme, event.ink), p.m.line, Dash::solid});
    if (event.text.empty()) continue;
    const std::string text = fitted_math(p.canvas, event.text, plot.width - 2 * air, p.m.small, FontFace::regular);
    const double width = p.width(text, p.m.small), x = (*ends)[0].x;
    std::vector<Rect> beside, across;  // the line; across it for texts that fit on neither side
    for (int row = 0; row < 8; ++row) {
      const double top = plot.y + air + row * 1.25 * height;
      if (row > 0 && top + height > plot.bottom()) break;
      for (const double left : {x + air, x - air - width}) {
        const Rect rect{left, top, width, height};
        if (left >= plot.x && rect.right() <= plot.right()) beside.push_back(rect);
      }
      across.push_back(kept_inside({x + air, top, width, height}, plot));
    }
    const Rect place = best_place(beside.empty() ? across : beside, ink);
    backed_text(p, place, text, ink_color(p.theme, event.ink), FontFace::regular, true);
    ink.add_rect(place);
  }
}

void draw_cursors(const Painter& p) {
  if (p.view.cursor_x) {
    const auto ends = across_plot(p, Orientation::vertical, *p.view.cursor_x);
    if (ends) p.canvas.polyline(*ends, {p.theme.dim, p.m.line, Dash::solid});
    for (const NearestPoint& near : nearest_points(p.figure, p.view, *p.view.cursor_x)) {
      const Point place{p.layout.x.to_canvas(near.x), p.layout.y.to_canvas(near.y)};
      if (!p.layout.plot.contains(place)) continue;
      p.canvas.fill_circle(place, 4 * p.m.unit, p.theme.panel);
      p.canvas.fill_circle(place, 3 * p.m.unit, ink_color(p.theme, near.ink));
    }
  }
  if (p.view.mark_a) draw_measuring_cursor(p, *p.view.mark_a);
  if (p.view.mark_b) draw_measuring_cursor(p, *p.view.mark_b);
}

void draw_cursor_tags(const Painter& p) {
  if (p.view.mark_a) draw_cursor_tag(p, *p.view.mark_a, "A");
  if (p.view.mark_b) draw_cursor_tag(p, *p.view.mark_b, "B");
}

}  // namespace afterglow
