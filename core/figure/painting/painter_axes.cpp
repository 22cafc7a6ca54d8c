// Grid, frame, ticks, numbers, titles and colour bars.
#include <algorithm>

#include "core/figure/math/math_text.h"
#include "core/figure/painting/painter.h"

namespace afterglow {
namespace {

constexpr int color_bar_steps = 96;
constexpr double smallest_axis_title = 0.8;  // of the text

void draw_x_ticks(const Painter& p) {
  const Rect& plot = p.layout.plot;
  for (const Tick& tick : p.layout.x_ticks) {
    const double x = p.layout.x.to_canvas(tick.at), length = (tick.label.empty() ? 0.18 : 0.3) * p.m.text;
    const Point mark[] = {{x, plot.bottom()}, {x, plot.bottom() + length}};
    p.canvas.polyline(mark, p.hairline(p.theme.faint));
    if (!tick.label.empty())
      p.text({x, plot.bottom() + 1.35 * p.m.text}, tick.label, p.theme.dim, p.m.text, Anchor::middle);
  }
}

void draw_y_ticks(const Painter& p) {
  const Rect& plot = p.layout.plot;
  for (const Tick& tick : p.layout.y_ticks) {
    const double y = p.layout.y.to_canvas(tick.at), length = (tick.label.empty() ? 0.18 : 0.3) * p.m.text;
    const Point mark[] = {{plot.x - length, y}, {plot.x, y}};
    p.canvas.polyline(mark, p.hairline(p.theme.faint));
    p.text({plot.x - 0.6 * p.m.text, y + 0.36 * p.m.text}, tick.label, p.theme.dim, p.m.text, Anchor::end);
  }
}

// The first words of a title that fit; a single word is cut.
std::string first_words(const Painter& p, std::string title, double length, double size) {
  while (p.width(title, size) > length && title.find(' ') != std::string::npos) title.erase(title.rfind(' '));
  return fitted_math(p.canvas, title, length, size, FontFace::regular);
}

/// The lower end of the y title: that of the plot where labels of the x axis extend below the title, else of the area.
double end_of_y_title(const Painter& p) {
  const bool is_below = std::ranges::any_of(p.layout.x_ticks, [&](const Tick& tick) {
    return p.layout.x.to_canvas(tick.at) - p.width(tick.label, p.m.text) / 2 < p.layout.y_title_x + 0.4 * p.m.text;
  });
  return is_below ? p.layout.plot.bottom() : p.layout.area.bottom();
}

void draw_upwards(const Painter& p, Point middle, const std::string& text, double size) {
  const TextStyle style{size, FontFace::regular, p.theme.dim, Anchor::middle, 90};
  draw_math(p.canvas, middle, text, style);
}

// A title is centred on the plot, but never leaves the area.
void draw_axis_titles(const Painter& p) {
  const Rect& area = p.layout.area;
  const Rect& plot = p.layout.plot;
  struct Title {
    std::string text;
    double size = 0;
  };
  // A title that is too long gets a little smaller before it loses words; its formula card shows it in full.
  const auto fit = [&](const Axis& axis, double length) {
    const std::string title = axis_title(axis);
    const double share = length / std::max(p.width(title, p.m.text), 1e-9);
    const double size = p.m.text * std::clamp(share, smallest_axis_title, 1.0);
    return Title{first_words(p, title, length, size), size};
  };
  const auto centre = [](double wanted, double half, double low, double high) {
    return low + half > high - half ? (low + high) / 2 : std::clamp(wanted, low + half, high - half);
  };
  const double top = p.layout.has_legend_above ? plot.y : std::max(area.y, plot.y - p.m.text);
  const Title x_title = fit(p.figure.x, area.width), y_title = fit(p.figure.y, end_of_y_title(p) - top);
  const double x = centre(plot.x + plot.width / 2, p.width(x_title.text, x_title.size) / 2, area.x, area.right());
  p.text({x, p.layout.x_title_y}, x_title.text, p.theme.dim, x_title.size, Anchor::middle);
  const double y = centre(plot.y + plot.height / 2, p.width(y_title.text, y_title.size) / 2, top, end_of_y_title(p));
  if (y_title.text.empty()) return;
  draw_upwards(p, {p.layout.y_title_x, y}, y_title.text, y_title.size);
}

void draw_flaw_swatch(const Painter& p, const ColorBarLayout& bar) {
  const double top = bar.bar.bottom() + 1.2 * p.m.text;
  const Rect swatch{bar.bar.x, top, bar.bar.width, 0.9 * p.m.text};
  p.canvas.fill_rect(swatch, 0, flaw_color(p.theme));
  p.text({bar.bar.right() + 0.4 * p.m.text, top + 0.8 * p.m.text}, "not finite", p.theme.dim, p.m.small, Anchor::start);
}

}  // namespace

void draw_grid(const Painter& p) {
  if (p.layout.has_heat_map) return;
  const Rect& plot = p.layout.plot;
  const auto draw = [&](Point from, Point to) {
    const Point line[] = {from, to};
    p.canvas.polyline(line, p.hairline(p.theme.grid));
  };
  for (const Tick& tick : p.layout.x_ticks) {
    const double x = p.layout.x.to_canvas(tick.at);
    if (!tick.label.empty()) draw({x, plot.y}, {x, plot.bottom()});
  }
  for (const Tick& tick : p.layout.y_ticks) {
    const double y = p.layout.y.to_canvas(tick.at);
    const auto is_crossed = [&](const TextLabel& label) { return label.is_centred && label.y == tick.at; };
    if (!tick.label.empty() && std::ranges::none_of(p.figure.text_labels, is_crossed))
      draw({plot.x, y}, {plot.right(), y});
  }
}

void draw_frame(const Painter& p) {
  p.canvas.begin_group("axes");
  p.canvas.stroke_rect(p.layout.plot, 0, p.hairline(p.theme.hairline));
  draw_x_ticks(p);
  draw_y_ticks(p);
  if (!p.layout.is_bare) draw_axis_titles(p);
  for (const TextLine& line : p.layout.titles)
    p.text(line.place, line.text, line.is_subtitle ? p.theme.dim : p.theme.text,
           line.is_subtitle ? p.m.text : p.m.title, Anchor::start,
           line.is_subtitle ? FontFace::regular : FontFace::semibold);
  p.canvas.end_group();
}

void draw_color_bars(const Painter& p, FigureGeometry& geometry) {
  for (const ColorBarLayout& bar : p.layout.color_bars) {
    const auto& map = std::get<HeatMap>(p.figure.series[bar.series]);
    std::vector<Color> colors;
    for (int i = 0; i < color_bar_steps; ++i)
      colors.push_back(map_color(p.theme, map.map, 1 - (i + 0.5) / color_bar_steps));
    p.canvas.begin_group("color bar");
    p.canvas.color_grid(bar.bar, color_bar_steps, 1, colors);
    p.canvas.stroke_rect(bar.bar, 0, p.hairline(p.theme.hairline));
    for (const Tick& tick : bar.ticks) {
      const double y = bar.values.to_canvas(tick.at);
      const Point mark[] = {{bar.bar.right(), y}, {bar.bar.right() + 0.2 * p.m.text, y}};
      p.canvas.polyline(mark, p.hairline(p.theme.faint));
      p.text({bar.bar.right() + 0.4 * p.m.text, y + 0.36 * p.m.text}, tick.label, p.theme.dim, p.m.text, Anchor::start);
    }
    const std::string title =
        fitted_math(p.canvas, axis_title(map.value), p.layout.area.height, p.m.text, FontFace::regular);
    if (!title.empty()) {
      const double half = p.width(title, p.m.text) / 2;
      const double y = std::max(bar.bar.y + bar.bar.height / 2, p.layout.area.y + half);
      draw_upwards(p, {bar.title_x, y}, title, p.m.text);
    }
    if (bar.shows_flaws) draw_flaw_swatch(p, bar);
    p.canvas.end_group();
    geometry.color_bars.push_back({bar.series, bar.bar, bar.values.range()});
  }
}

}  // namespace afterglow
