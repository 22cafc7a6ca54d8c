// Curves, dots, bars and heat maps.
#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "core/figure/painting/painter.h"

namespace afterglow {
namespace {

constexpr int color_levels = 256;
constexpr int trail_bands = 6;  // opacity steps of a trail: enough to seem smooth, few strokes in a file

// ---- heat maps

// How much a cell stands out: of a block of cells the most prominent one is drawn, so that no spike is lost.
double prominence(double t, ColourMap map) { return map == ColourMap::diverging ? std::abs(t - 0.5) : t; }

class HeatPainter {
 public:
  HeatPainter(const Painter& p, const HeatMap& map) : p_(p), map_(map), transform_(color_transform(map, p.view, 0, 1)) {
    for (int i = 0; i < color_levels; ++i) colors_.push_back(map_color(p.theme, map.map, i / (color_levels - 1.0)));
  }

  void draw() {
    const auto [first_row, last_row] = visible(p_.layout.y.range(), map_.rows);
    const auto [first_col, last_col] = visible(p_.layout.x.range(), map_.cols);
    if (first_row >= last_row || first_col >= last_col) return;
    const int limit = std::max(1, p_.canvas.grid_limit());
    const int row_step = (last_row - first_row + limit - 1) / limit,
              col_step = (last_col - first_col + limit - 1) / limit;
    const int rows = (last_row - first_row + row_step - 1) / row_step,
              cols = (last_col - first_col + col_step - 1) / col_step;
    std::vector<Color> cells;
    cells.reserve(static_cast<std::size_t>(rows) * cols);
    for (int r = 0; r < rows; ++r) {
      for (int c = 0; c < cols; ++c) {
        const int row = first_row + r * row_step, col = first_col + c * col_step;
        cells.push_back(block_color(row, std::min(row + row_step, last_row), col, std::min(col + col_step, last_col)));
      }
    }
    const double left = p_.layout.x.to_canvas(first_col - 0.5),
                 right = p_.layout.x.to_canvas(first_col + cols * col_step - 0.5);
    const double top = p_.layout.y.to_canvas(first_row - 0.5),
                 bottom = p_.layout.y.to_canvas(first_row + rows * row_step - 0.5);
    p_.canvas.color_grid({left, top, right - left, bottom - top}, rows, cols, cells);
    if (row_step > 1 || col_step > 1) return;
    if (!map_.is_rough.empty()) shrink_rough_cells(first_row, last_row, first_col, last_col);
    if (map_.shows_numbers) draw_numbers(first_row, last_row, first_col, last_col);
  }

 private:
  static std::pair<int, int> visible(Range range, int count) {
    const auto cell = [count](double at) { return static_cast<int>(std::clamp(at, 0.0, static_cast<double>(count))); };
    return {cell(std::floor(range.low + 0.5)), cell(std::ceil(range.high + 0.5))};
  }

  double cell_width() const { return p_.layout.x.to_canvas(1) - p_.layout.x.to_canvas(0); }
  double cell_height() const { return std::abs(p_.layout.y.to_canvas(1) - p_.layout.y.to_canvas(0)); }

  bool is_rough(int row, int col) const {
    const auto cell = static_cast<std::size_t>(row * map_.cols + col);
    return cell < map_.is_rough.size() && map_.is_rough[cell] && !std::isnan(map_.cells[cell]);
  }
  /// Width of the border of a rough cell.
  double rough_edge() const { return 0.15 * std::min(cell_width(), cell_height()); }

  /// Frames rough cells in the panel's colour; their middle keeps the colour of the value.
  void shrink_rough_cells(int first_row, int last_row, int first_col, int last_col) {
    const double width = cell_width(), height = cell_height(), edge = rough_edge();
    for (int row = first_row; row < last_row; ++row) {
      for (int col = first_col; col < last_col; ++col) {
        if (!is_rough(row, col)) continue;
        const Rect inside{p_.layout.x.to_canvas(col) - (width - edge) / 2,
                          p_.layout.y.to_canvas(row) - (height - edge) / 2, width - edge, height - edge};
        p_.canvas.stroke_rect(inside, 0, {p_.theme.panel, edge + p_.m.unit});  // covers the cell's edge
      }
    }
  }

  /// Writes a number into every cell, smaller where one is wide, or into no cell; into a rough cell only where it fits.
  void draw_numbers(int first_row, int last_row, int first_col, int last_col) {
    const double least = p_.theme.text_scale > 1 ? 1 : 0.7;  // of the size of ticks; a hall reads nothing smaller
    constexpr double min_rough = 0.6, filled = 0.9, filled_rough = 0.8;  // the last two of a cell's width, at most
    constexpr std::size_t many_numbers = 30;
    const double width = cell_width(), height = cell_height();
    double largest = 0;
    for (const double value : map_.cells.span())
      largest = std::max(largest, std::isfinite(value) ? std::abs(value) : 0.0);
    // For shares, of which the largest may be 1, all digits are decimals.
    const double unit = largest > 0 ? std::pow(10.0, std::ceil(std::log10(largest)) - map_.digits) : 1;
    std::vector<std::string> texts;
    double widest = 0;
    for (int row = first_row; row < last_row; ++row) {
      for (int col = first_col; col < last_col; ++col) {
        const double value = map_.cells[static_cast<std::size_t>(row) * map_.cols + col];
        const bool is_blank = map_.nan_is_blank && std::isnan(value);
        texts.push_back(is_blank ? "" : number_text(std::round(value / unit) * unit, map_.digits));
        widest = std::max(widest, p_.width(texts.back(), p_.m.small));
      }
    }
    const double size = p_.m.small * std::min(1.0, filled * width / widest);
    // Many numbers need air to be read; without it the colours and the pointer tell them.
    const double lines = texts.size() > many_numbers ? 2.4 : 1.4;
    if (size < least * p_.m.small || height < lines * size) return;
    auto text = texts.begin();
    for (int row = first_row; row < last_row; ++row) {
      for (int col = first_col; col < last_col; ++col, ++text) {
        double own = size;
        if (is_rough(row, col)) {
          const double room = filled_rough * (width - 2 * rough_edge()), taken = p_.width(*text, size);
          if (taken > room) own *= room / taken;
          if (own < min_rough * p_.m.small) continue;
        }
        const Point baseline{p_.layout.x.to_canvas(col),
                             p_.layout.y.to_canvas(row) + (ascent_of_font - descent_of_font) * own / 2};
        p_.text(baseline, *text, ink_over(block_color(row, row + 1, col, col + 1)), own, Anchor::middle);
      }
    }
  }

  /// The theme's ink or its ground, whichever has more contrast.
  Color ink_over(const Color& cell) const {
    const auto lightness = [](const Color& c) { return 0.299 * c.r + 0.587 * c.g + 0.114 * c.b; };
    const auto distance = [&](const Color& ink) { return std::abs(lightness(ink) - lightness(cell)); };
    const bool is_blank = cell.a == 0;
    return is_blank || distance(p_.theme.text) >= distance(p_.theme.ground) ? p_.theme.text : p_.theme.ground;
  }

  Color block_color(int first_row, int last_row, int first_col, int last_col) const {
    double best = -1, best_t = 0;
    for (int r = first_row; r < last_row; ++r) {
      for (int c = first_col; c < last_col; ++c) {
        const double value = map_.cells[static_cast<std::size_t>(r) * map_.cols + c];
        if (std::isnan(value) && map_.nan_is_blank) continue;
        if (!std::isfinite(value)) return flaw_color(p_.theme);
        const double t = std::clamp(transform_.to_canvas(value), 0.0, 1.0);
        if (prominence(t, map_.map) > best) {
          best = prominence(t, map_.map);
          best_t = t;
        }
      }
    }
    if (best < 0) return Color{0, 0, 0, 0};
    return colors_[static_cast<std::size_t>(std::lround(best_t * (color_levels - 1)))];
  }

  const Painter& p_;
  const HeatMap& map_;
  AxisTransform transform_;
  std::vector<Color> colors_;
};

// ---- bars

double canvas_bar_width(const Painter& p, const Bars& bars) {
  const AxisTransform& x = p.layout.x;
  std::vector<double> places;
  for (const Bar& bar : bars.bars) {
    if (std::isfinite(x.to_canvas(bar.x))) places.push_back(x.to_canvas(bar.x));
  }
  if (places.empty()) return 0;
  if (bars.width > 0 && x.scale() == Scale::linear) {
    const Range range = x.range();
    return std::max(0.5 * p.m.unit, bars.width / (range.high - range.low) * std::abs(x.to() - x.from()));
  }
  std::ranges::sort(places);
  double closest = 35 * p.m.unit;
  for (std::size_t i = 1; i < places.size(); ++i) {
    const double distance = places[i] - places[i - 1];
    if (distance > 1e-6) closest = std::min(closest, distance);
  }
  return std::max(0.8 * closest, p.m.unit);
}

Rect bar_rect(const Painter& p, double at, double value, double width) {
  const AxisTransform& y = p.layout.y;
  const Rect& plot = p.layout.plot;
  const double base = y.scale() == Scale::log ? plot.bottom() : std::clamp(y.to_canvas(0), plot.y, plot.bottom());
  const double end = std::clamp(y.to_canvas(value), plot.y - 4, plot.bottom() + 4);
  return {p.layout.x.to_canvas(at) - width / 2, std::min(base, end), width, std::abs(end - base)};
}

bool is_drawable(const Painter& p, double value) {
  return std::isfinite(value) && !(p.layout.y.scale() == Scale::log && value <= 0);
}

FlawMark flaw_at(const Painter& p, double x, double value) {
  const Rect& plot = p.layout.plot;
  const Flaw flaw = std::isnan(value)      ? Flaw::not_a_number
                    : std::isfinite(value) ? Flaw::off_log
                    : value > 0            ? Flaw::above
                                           : Flaw::below;
  const double place = std::isfinite(p.layout.x.to_canvas(x)) ? p.layout.x.to_canvas(x) : plot.x;
  return {{std::clamp(place, plot.x, plot.right()), flaw == Flaw::above ? plot.y : plot.bottom()}, flaw};
}

// ---- dots

void draw_trail(const Painter& p, const Trail& trail, double strength) {
  const CanvasCurve curve = thinned_curve(CurveView(trail.x, trail.y), p.layout.x, p.layout.y, p.canvas.pixel());
  for (std::size_t i = 0; i < curve.pieces(); ++i) {
    const auto piece = curve.piece(i);
    const std::size_t steps = piece.size() - 1;
    for (int band = 0; band < trail_bands; ++band) {
      const std::size_t first = steps * band / trail_bands, last = steps * (band + 1) / trail_bands;
      if (first == last) continue;
      const double alpha = strength * (0.08 + 0.5 * (band + 1) / trail_bands);
      p.canvas.polyline(piece.subspan(first, last - first + 1),
                        {faded(ink_color(p.theme, trail.ink), alpha), 1.4 * p.m.line, Dash::solid});
    }
  }
}

void draw_dot(const Painter& p, const ScatterPoint& point, const Scatter& scatter, Point place, double radius,
              double strength) {
  const Color color = faded(ink_color(p.theme, point.ink), strength);
  const Marker shape = scatter.marker == Marker::automatic ? ink_marker(point.ink) : scatter.marker;
  if (p.theme.is_dark && !scatter.is_outlined) {
    p.canvas.fill_circle(place, radius + 4 * p.m.unit, faded(color, 0.13));  // the glow
  } else {
    draw_marker(p.canvas, shape, place, radius + 0.8 * p.m.unit, faded(p.theme.panel, strength));
  }
  draw_marker(p, shape, place, radius, color, scatter.is_outlined);
  const bool is_picked = !point.id.empty() && (point.id == p.view.selected || point.id == p.view.hovered);
  if (point.ring || is_picked)
    p.canvas.stroke_circle(place, radius + 3.5 * p.m.unit, {p.theme.text, 1.4 * p.m.line, Dash::solid});
}

// ---- lines

// Markers distinguish curves; closer together than this they would hide them.
void draw_line_markers(const Painter& p, const Line& line, Color color) {
  const Marker marker = line.marker == Marker::automatic ? ink_marker(line.ink) : line.marker;
  if (marker == Marker::none) return;
  const CurveView curve(line.curve);
  const AxisTransform& x = p.layout.x;
  const std::size_t first = curve.is_sorted() ? curve.first_not_below(x.range().low) : 0;
  const std::size_t last = curve.is_sorted() ? curve.first_not_below(x.range().high) + 1 : curve.size();
  const std::size_t end = std::min(last, curve.size());
  const std::size_t stride = std::max<std::size_t>(1, (end - std::min(first, end)) / 1000);
  Point previous{-1e9, -1e9};
  for (std::size_t i = first; i < end; i += stride) {
    const Point place{x.to_canvas(curve.x(i)), p.layout.y.to_canvas(curve.y(i))};
    const bool is_far = std::hypot(place.x - previous.x, place.y - previous.y) >= 9 * p.m.unit;
    if (!p.layout.plot.contains(place) || !is_far) continue;
    draw_marker(p, marker, place, 3 * p.m.unit, color, line.is_outlined);
    previous = place;
  }
}

void draw_pieces(const Painter& p, const CanvasCurve& curve, const Stroke& stroke) {
  for (std::size_t i = 0; i < curve.pieces(); ++i) {
    const auto piece = curve.piece(i);
    if (piece.size() > 1) {
      p.canvas.polyline(piece, stroke);
    } else {
      p.canvas.fill_circle(piece.front(), std::max(stroke.width, 1.5 * p.m.unit), stroke.color);
    }
  }
}

}  // namespace

void draw_marker(Canvas& canvas, Marker marker, Point at, double radius, Color color) {
  struct Shape {
    int corners;
    double first_angle, reach;
  };
  // In the order of `Marker`, circles without corners. The eye compares areas, not radii: every shape has about the
  // area of the circle.
  static constexpr Shape shapes[] = {{},          {}, {}, {4, 45, 1.25}, {4, 90, 1.25}, {3, 90, 1.5}, {3, 270, 1.5},
                                     {6, 90, 1.1}};
  const Shape& shape = shapes[static_cast<std::size_t>(marker)];
  if (marker == Marker::none) return;
  if (shape.corners == 0) return canvas.fill_circle(at, radius, color);
  std::array<Point, 6> points;
  for (int i = 0; i < shape.corners; ++i) {
    const double angle = (shape.first_angle + 360.0 * i / shape.corners) * std::numbers::pi / 180;
    points[i] = {at.x + shape.reach * radius * std::cos(angle), at.y - shape.reach * radius * std::sin(angle)};
  }
  canvas.polygon(std::span(points).first(shape.corners), color);
}

void draw_marker(const Painter& p, Marker marker, Point place, double radius, Color color, bool is_outlined) {
  draw_marker(p.canvas, marker, place, radius, color);
  if (is_outlined) draw_marker(p.canvas, marker, place, std::max(0.4 * radius, radius - 1.8 * p.m.unit), p.theme.panel);
}

void draw_flaw(const Painter& p, const FlawMark& mark, Ink ink) {
  const double radius = 2.6 * p.m.unit;
  const bool is_down = mark.flaw == Flaw::below || mark.flaw == Flaw::off_log;
  const Color color = mark.flaw == Flaw::off_log ? ink_color(p.theme, ink) : p.theme.failure;
  const Rect& plot = p.layout.plot;
  const double y =
      std::clamp(mark.place.y, plot.y + 1.5 * radius, std::max(plot.y + 1.5 * radius, plot.bottom() - 1.5 * radius));
  draw_marker(p.canvas, is_down ? Marker::triangle_down : Marker::triangle_up, {mark.place.x, y}, radius, color);
}

void draw_heat_map(const Painter& p, const HeatMap& map) {
  if (is_complete(map)) HeatPainter(p, map).draw();
}

std::vector<Rect> bar_rects(const Painter& p, const Bars& bars, bool before) {
  const double width = canvas_bar_width(p, bars);
  std::vector<Rect> rects;
  for (const Bar& bar : bars.bars) {
    const double value = before ? bar.before : bar.value;
    if (is_drawable(p, value) && std::isfinite(p.layout.x.to_canvas(bar.x)))
      rects.push_back(bar_rect(p, bar.x, value, width));
  }
  return rects;
}

void draw_bars(const Painter& p, const Bars& bars) {
  const double strength = p.strength(bars.name), width = canvas_bar_width(p, bars);
  for (const Rect& ghost : bar_rects(p, bars, true))
    p.canvas.fill_rect(ghost, 0, faded(p.theme.faint, 0.35 * strength));
  for (const Bar& bar : bars.bars) {
    if (!is_drawable(p, bar.value) || !std::isfinite(p.layout.x.to_canvas(bar.x))) {
      draw_flaw(p, flaw_at(p, bar.x, bar.value), bar.ink);
      continue;
    }
    const Rect rect = bar_rect(p, bar.x, bar.value, width);
    const Color color = faded(bars.is_outlined ? p.theme.text : ink_color(p.theme, bar.ink), strength);
    if (bars.is_outlined) {
      p.canvas.stroke_rect(rect, 0, {color, std::min(1.2 * p.m.line, rect.width / 5), Dash::solid});
    } else {
      p.canvas.fill_rect(rect, 0, color);
    }
    if (!is_drawable(p, bar.before)) continue;
    const Rect ghost =
        bar_rect(p, bar.x, bar.before, width);  // a bar that grew hides its earlier value: a notch marks it
    if (ghost.height >= rect.height) continue;
    const double y = bar.before >= 0 ? ghost.y : ghost.bottom();
    const Point notch[] = {{rect.x, y}, {rect.right(), y}};
    p.canvas.polyline(notch, {p.theme.panel, 1.5 * p.m.line, Dash::solid});
  }
}

void draw_scatter(const Painter& p, std::size_t series, FigureGeometry& geometry) {
  const auto& scatter = std::get<Scatter>(p.figure.series[series]);
  for (const Trail& trail : scatter.trails) draw_trail(p, trail, p.strength(scatter.name));
  for (std::size_t i = 0; i < scatter.points.size(); ++i) {
    const ScatterPoint& point = scatter.points[i];
    const Point place{p.layout.x.to_canvas(point.x), p.layout.y.to_canvas(point.y)};
    const bool has_place = std::isfinite(place.x) && std::isfinite(place.y);
    if (!has_place) {
      draw_flaw(p, flaw_at(p, point.x, std::isfinite(place.x) ? point.y : std::nan("")), point.ink);
      continue;
    }
    if (!p.layout.plot.contains(place)) continue;
    const double radius = std::clamp(std::isfinite(point.radius) ? point.radius : 4.0, 0.5, 60.0) * p.m.unit;
    const double presence = std::isfinite(point.presence) ? std::clamp(point.presence, 0.0, 1.0) : 1.0;
    draw_dot(p, point, scatter, place, radius, p.is_stressed(point.id) ? 1 : presence * p.strength(scatter.name));
    geometry.points.push_back({series, i, place, radius});
  }
}

void draw_line(const Painter& p, const DrawnLine& drawn) {
  const auto& line = std::get<Line>(p.figure.series[drawn.series]);
  const double strength = p.strength(line.name);
  const Color color = faded(ink_color(p.theme, line.ink), strength);
  const double width = std::clamp(line.width, 0.1, 40.0) * p.m.line * (p.is_stressed(line.name) ? 1.35 : 1);
  p.canvas.begin_group("series " + std::to_string(drawn.series));
  draw_pieces(p, *drawn.raw, {faded(color, 0.35), p.m.line, Dash::solid});
  const Dash dash = line.dash == Dash::automatic ? ink_dash(line.ink) : line.dash;
  draw_pieces(p, *drawn.curve, {color, line.is_outlined ? 2.2 * width : width, dash});
  if (line.is_outlined) draw_pieces(p, *drawn.curve, {p.theme.panel, width, Dash::solid});
  draw_line_markers(p, line, color);
  for (const auto& curve : {drawn.curve, drawn.raw}) {
    for (const FlawMark& mark : curve->flaws) draw_flaw(p, mark, line.ink);
  }
  p.canvas.end_group();
}

}  // namespace afterglow
