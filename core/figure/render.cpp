// The steps of a drawing: layout, thinning, ink, labels.
#include "core/figure/render.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/figure/decimate.h"
#include "core/figure/math/math_text.h"
#include "core/figure/painting/painter.h"

namespace afterglow {
namespace {

// A layout with the curves thinned for it, their ink, and the labels that have a place.
struct Attempt {
  FigureLayout layout;
  std::vector<DrawnLine> lines;
  Occupancy ink;
  std::vector<PlacedLabel> labels;
};

class Renderer {
 public:
  Renderer(const Figure& figure, const Theme& theme, const FigureView& view, const Rect& area, Canvas& canvas)
      : figure_(figure), theme_(theme), view_(view), area_(area), canvas_(canvas) {}

  FigureGeometry run() {
    Attempt attempt = plan();
    const Painter p = painter(attempt.layout);
    geometry_ = {area_, p.layout.plot, p.layout.x, p.layout.y, {}, {}, {}};
    draw_grid(p);
    draw_inside(p, attempt.lines);
    draw_frame(p);
    draw_color_bars(p, geometry_);
    draw_labels(p, attempt.labels, geometry_);
    if (!p.layout.is_bare || view_.is_bare) draw_notes(p, attempt.ink);
    draw_cursor_tags(p);
    return std::move(geometry_);
  }

 private:
  Painter painter(const FigureLayout& layout) const {
    return {figure_, theme_, view_, canvas_, Measures(theme_, view_), layout};
  }

  FigureLayout laid_out(const LabelRoom& room) const { return lay_out(figure_, theme_, view_, area_, room, canvas_); }

  Attempt attempted(FigureLayout layout) const {
    const Painter p = painter(layout);
    std::vector<DrawnLine> lines = thin_lines(p);
    Occupancy ink = ink_of(p, lines);
    return {std::move(layout), std::move(lines), std::move(ink), {}};
  }

  // Labels at the curves if they fit, else a legend in a free corner, else one above the plot.
  Attempt plan() const {
    FigureLayout plain = laid_out({});
    if (figure_.labels == LabelPlacement::none || plain.is_bare) return attempted(std::move(plain));
    if (figure_.labels != LabelPlacement::legend) {
      if (auto attempt = with_labels_at_curves(plain)) return std::move(*attempt);
    }
    return with_legend(std::move(plain));
  }

  std::optional<Attempt> with_labels_at_curves(const FigureLayout& plain) const {
    const auto room = right_room_for_labels(painter(plain));
    if (!room) return std::nullopt;
    Attempt attempt = attempted(*room > 0 ? laid_out({.right = *room, .top = 0}) : plain);
    const Painter p = painter(attempt.layout);
    auto labels = labels_at_curves(p, attempt.ink);
    if (!labels) return std::nullopt;
    auto legend = legend_inside(p, *labels, attempt.ink);
    if (!legend) return std::nullopt;
    attempt.labels = std::move(*labels);
    attempt.labels.insert(attempt.labels.end(), legend->begin(), legend->end());
    for (const PlacedLabel& label : attempt.labels) attempt.ink.add_rect(label.rect);
    return attempt;
  }

  Attempt with_legend(FigureLayout plain) const {
    Attempt attempt = attempted(std::move(plain));
    const Painter p = painter(attempt.layout);
    if (auto legend = legend_inside(p, {}, attempt.ink)) {
      attempt.labels = std::move(*legend);
      return attempt;
    }
    const auto rows_beside = [&](double lines_of_plot) {
      const double left = p.layout.plot.height / p.m.text - lines_of_plot - 0.4;
      const auto rows = static_cast<std::size_t>(std::max(0.0, std::floor(left / line_height_of_font)));
      return view_.legend_rows > 0 ? std::min(rows, static_cast<std::size_t>(view_.legend_rows)) : rows;
    };
    constexpr std::size_t all_rows = std::numeric_limits<std::size_t>::max();
    const std::size_t most = rows_beside(5);
    const LegendAbove whole = legend_above(p, LegendNames::whole, all_rows);
    const bool has_room_for_names =
        whole.rows <= rows_beside(10) && std::ranges::none_of(whole.entries, &PlacedLabel::is_cut);
    const LegendNames names = has_room_for_names ? LegendNames::whole : LegendNames::stems;
    const double height = legend_above(p, names, most).height;
    if (height == 0) {  // a legend over the curves would hide them; the tooltip has the names
      if (auto legend = legend_inside(p, {}, attempt.ink, true)) attempt.labels = std::move(*legend);
      return attempt;
    }
    Attempt tall = attempted(laid_out({.right = 0, .top = height}));
    tall.labels = legend_above(painter(tall.layout), names, most).entries;
    return tall;
  }

  void draw_inside(const Painter& p, const std::vector<DrawnLine>& lines) {
    const double air = 1.5 * p.m.line;  // half a curve's width, so that a curve along the frame is not halved
    const Rect& plot = p.layout.plot;
    canvas_.push_clip({plot.x - air, plot.y - air, plot.width + 2 * air, plot.height + 2 * air});
    for (const Series& series : figure_.series) {
      const auto* map = std::get_if<HeatMap>(&series);
      if (map && is_shown(series, view_)) draw_heat_map(p, *map);
    }
    draw_reference_shapes(p);
    const auto is_under = [&](std::size_t i) {  // a thinner curve over an outlined one leaves both visible
      return std::holds_alternative<Line>(figure_.series[i]) && is_outlined(figure_.series[i]);
    };
    for (const bool under : {true, false}) {
      for (std::size_t i = 0; i < figure_.series.size(); ++i) {
        if (is_under(i) == under) draw_series(p, lines, i);
      }
    }
    draw_cursors(p);
    canvas_.pop_clip();
  }

  void draw_series(const Painter& p, const std::vector<DrawnLine>& lines, std::size_t i) {
    const Series& series = figure_.series[i];
    if (!is_shown(series, view_)) return;
    if (const auto* bars = std::get_if<Bars>(&series)) draw_bars(p, *bars);
    if (std::holds_alternative<Scatter>(series)) draw_scatter(p, i, geometry_);
    for (const DrawnLine& line : lines) {
      if (line.series == i) draw_line(p, line);
    }
  }

  void draw_notes(const Painter& p, Occupancy& ink) {
    canvas_.begin_group("notes");
    draw_text_labels(p, ink);
    draw_events(p, ink);
    draw_reference_labels(p, ink);
    draw_point_labels(p, geometry_, ink);
    canvas_.end_group();
  }

  const Figure& figure_;
  const Theme& theme_;
  const FigureView& view_;
  Rect area_;
  Canvas& canvas_;
  FigureGeometry geometry_;
};

void add_ink_of_bars(const Painter& p, const Bars& bars, Occupancy& ink) {
  for (const bool before : {false, true}) {
    for (const Rect& rect : bar_rects(p, bars, before)) ink.add_rect(rect);
  }
}

void add_ink_of_dots(const Painter& p, const Scatter& scatter, Occupancy& ink) {
  for (const ScatterPoint& point : scatter.points) {
    const Point at{p.layout.x.to_canvas(point.x), p.layout.y.to_canvas(point.y)};
    const double r = std::clamp(point.radius, 0.5, 60.0) * p.m.unit;
    if (std::isfinite(at.x) && std::isfinite(at.y)) ink.add_rect({at.x - r, at.y - r, 2 * r, 2 * r});
  }
  for (const Trail& trail : scatter.trails) {
    const CanvasCurve curve = thinned_curve(CurveView(trail.x, trail.y), p.layout.x, p.layout.y, p.canvas.pixel());
    for (std::size_t i = 0; i < curve.pieces(); ++i) ink.add_polyline(curve.piece(i));
  }
}

void add_ink_of_marks(const Painter& p, Occupancy& ink) {
  const Rect& plot = p.layout.plot;
  for (const ReferenceLine& line : p.figure.reference_lines) {
    const bool is_vertical = line.orientation == Orientation::vertical;
    const double at = (is_vertical ? p.layout.x : p.layout.y).to_canvas(line.at);
    if (!std::isfinite(at)) continue;
    ink.add_rect(is_vertical ? Rect{at, plot.y, 0, plot.height} : Rect{plot.x, at, plot.width, 0});
  }
  for (const ReferenceCircle& circle : p.figure.reference_circles) {
    std::vector<Point> points;
    for (int degrees = 0; degrees <= 360; degrees += 3) {
      const double angle = degrees * std::numbers::pi / 180;
      points.push_back({p.layout.x.to_canvas(circle.x + circle.radius * std::cos(angle)),
                        p.layout.y.to_canvas(circle.y + circle.radius * std::sin(angle))});
    }
    ink.add_polyline(points);
  }
  for (const EventMark& event : p.figure.events) {
    const double at = p.layout.x.to_canvas(event.x);
    if (std::isfinite(at)) ink.add_rect({at, plot.y, 0, plot.height});
  }
}

}  // namespace

bool Painter::is_stressed(const std::string& name) const {
  return !name.empty() && (name == view.hovered || name == view.selected);
}

double Painter::strength(const std::string& name) const {
  const bool something_is =
      std::ranges::any_of(figure.series, [&](const Series& s) { return is_stressed(series_name(s)); });
  return something_is && !is_stressed(name) ? 0.3 : 1;
}

void Painter::text(Point place, const std::string& utf8, Color color, double size, Anchor anchor, FontFace face) const {
  if (!utf8.empty())
    draw_math(canvas, place, utf8, {.size = size, .face = face, .color = color, .anchor = anchor, .rotation = 0});
}

double Painter::width(const std::string& utf8, double size) const {
  return math_width(canvas, utf8, size, FontFace::regular);
}

std::vector<DrawnLine> thin_lines(const Painter& p) {
  std::vector<DrawnLine> lines;
  const double column = p.canvas.pixel();
  for (std::size_t i = 0; i < p.figure.series.size(); ++i) {
    const auto* line = std::get_if<Line>(&p.figure.series[i]);
    if (!line || !is_shown(p.figure.series[i], p.view)) continue;
    const auto thinned = [&](const Curve& curve) {
      if (p.view.thinned) return p.view.thinned->get(i, curve, p.layout.x, p.layout.y, column);
      return std::make_shared<const CanvasCurve>(thinned_curve(CurveView(curve), p.layout.x, p.layout.y, column));
    };
    lines.push_back({i, thinned(line->curve), thinned(line->raw)});
  }
  return lines;
}

Occupancy ink_of(const Painter& p, const std::vector<DrawnLine>& lines) {
  Occupancy ink(p.layout.plot, 0.22 * p.m.text);
  for (const DrawnLine& line : lines) {
    for (const auto& curve : {line.curve, line.raw}) {
      for (std::size_t i = 0; i < curve->pieces(); ++i) ink.add_polyline(curve->piece(i));
    }
  }
  for (const Series& series : p.figure.series) {
    if (!is_shown(series, p.view)) continue;
    if (const auto* bars = std::get_if<Bars>(&series)) add_ink_of_bars(p, *bars, ink);
    if (const auto* scatter = std::get_if<Scatter>(&series)) add_ink_of_dots(p, *scatter, ink);
  }
  add_ink_of_marks(p, ink);
  return ink;
}

std::optional<DrawnPoint> FigureGeometry::point_at(Point place, double reach) const {
  std::optional<DrawnPoint> best;
  double best_distance = reach;
  for (const DrawnPoint& point : points) {
    const double distance = std::hypot(point.place.x - place.x, point.place.y - place.y) - point.radius;
    if (distance <= best_distance) {
      best_distance = distance;
      best = point;
    }
  }
  return best;
}

std::optional<std::size_t> FigureGeometry::label_at(Point place) const {
  for (const SeriesLabel& label : labels) {
    if (label.rect.contains(place)) return label.series;
  }
  return std::nullopt;
}

FigureGeometry render_figure(const Figure& figure, const Theme& theme, const FigureView& view, Rect area,
                             Canvas& canvas) {
  if (view.thinned) view.thinned->begin_drawing();
  canvas.push_clip(area);
  FigureGeometry geometry = Renderer(figure, theme, view, area, canvas).run();
  canvas.pop_clip();
  return geometry;
}

}  // namespace afterglow
