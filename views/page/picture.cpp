// Dots in the unit circle, curves, or a map of cells.
#include "views/page/picture.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace afterglow {

namespace {

using nlohmann::json;

Rect square_in(const Rect& area) {
  const double side = std::min(area.width, area.height);
  return {area.x + (area.width - side) / 2, area.y + (area.height - side) / 2, side, side};
}

void draw_points(Canvas& canvas, const Theme& theme, const Rect& area, const json& points) {
  const Rect plane = square_in(area);
  const double radius = plane.width / 2;
  const Point centre{plane.x + radius, plane.y + radius};
  canvas.stroke_circle(centre, radius, {theme.hairline, std::max(1.0, radius / 40), Dash::solid});
  for (const json& point : points) {
    const double x = point.at(0), y = point.at(1);
    canvas.fill_circle({centre.x + radius * x, centre.y - radius * y}, std::max(1.5, radius / 18),
                       ink_color(theme, Ink(point.at(2).get<int>())));
  }
}

void draw_curves(Canvas& canvas, const Theme& theme, const Rect& area, const json& curves) {
  int index = 0;
  for (const json& curve : curves) {
    std::vector<Point> points;
    for (std::size_t i = 0; i < curve.size(); ++i) {
      if (curve[i].is_null()) continue;  // the curve begins later
      const double share = curve.size() > 1 ? static_cast<double>(i) / static_cast<double>(curve.size() - 1) : 0;
      points.push_back({area.x + share * area.width, area.bottom() - curve[i].get<double>() * area.height});
    }
    canvas.polyline(points, {ink_color(theme, Ink(index++)), std::max(1.5, area.height / 50), Dash::solid});
  }
}

void draw_cells(Canvas& canvas, const Theme& theme, const Rect& area, const std::string& digits) {
  const auto side = static_cast<int>(std::lround(std::sqrt(static_cast<double>(digits.size()))));
  std::vector<Color> cells;
  for (const char digit : digits) cells.push_back(map_color(theme, ColourMap::sequential, (digit - '0') / 9.0));
  canvas.color_grid(square_in(area), side, side, cells);
}

}  // namespace

void draw_picture(Canvas& canvas, const Theme& theme, const Rect& area, std::string_view picture) {
  if (picture.empty()) return;
  const json parts = json::parse(picture);
  if (parts.contains("points")) draw_points(canvas, theme, area, parts["points"]);
  if (parts.contains("curves")) draw_curves(canvas, theme, area, parts["curves"]);
  if (parts.contains("cells")) draw_cells(canvas, theme, area, parts["cells"]);
}

}  // namespace afterglow
