// Strokes of a figure as Dear ImGui primitives.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "views/look/look.h"

namespace afterglow {
namespace {

ImVec2 vec(Point p) { return {static_cast<float>(p.x), static_cast<float>(p.y)}; }
ImVec2 low(const Rect& r) { return {static_cast<float>(r.x), static_cast<float>(r.y)}; }
ImVec2 high(const Rect& r) { return {static_cast<float>(r.right()), static_cast<float>(r.bottom())}; }

/// Cosine of the angle at b; 1 is straight on.
double turn_cosine(Point a, Point b, Point c) {
  const double ux = b.x - a.x, uy = b.y - a.y, vx = c.x - b.x, vy = c.y - b.y;
  const double length = std::sqrt((ux * ux + uy * uy) * (vx * vx + vy * vy));
  return length > 0 ? (ux * vx + uy * vy) / length : 1;
}

}  // namespace

// A sharp angle ends the stroke and starts another one with a round joint: a mitre would draw a spike that is not in
// the data.
void FigureCanvas::solid_line(std::span<const Point> points, float width, ImU32 color) {
  constexpr double sharpest_mitre = 0.3;
  path_.clear();
  const auto flush = [&] {
    if (path_.size() > 1) list_->AddPolyline(path_.data(), static_cast<int>(path_.size()), color, 0, width);
    path_.clear();
  };
  for (std::size_t i = 0; i < points.size(); ++i) {
    path_.push_back(vec(points[i]));
    const bool is_inner = i > 0 && i + 1 < points.size();
    if (!is_inner || turn_cosine(points[i - 1], points[i], points[i + 1]) > sharpest_mitre) continue;
    flush();
    if (width > 1.4f && (color >> IM_COL32_A_SHIFT) == 255)
      list_->AddCircleFilled(vec(points[i]), width * 0.5f, color, 8);
    path_.push_back(vec(points[i]));
  }
  flush();
}

void FigureCanvas::dashed_line(std::span<const Point> points, const Stroke& stroke) {
  const std::span<const double> pattern = dash_pattern(stroke.dash);
  const auto width = static_cast<float>(stroke.width);
  std::size_t part = 0;
  double left = pattern[0] * stroke.width;
  std::vector<Point> piece{points.front()};
  for (std::size_t i = 1; i < points.size(); ++i) {
    Point at = points[i - 1];
    double length = std::hypot(points[i].x - at.x, points[i].y - at.y);
    while (length > left) {
      const double t = left / length;
      at = {at.x + t * (points[i].x - at.x), at.y + t * (points[i].y - at.y)};
      length -= left;
      if (part % 2 == 0) {
        piece.push_back(at);
        solid_line(piece, width, packed(stroke.color));
      }
      part = (part + 1) % pattern.size();
      left = std::max(0.25, pattern[part] * stroke.width);
      piece.assign(1, at);
    }
    left -= length;
    if (part % 2 == 0) piece.push_back(points[i]);
  }
  if (part % 2 == 0) solid_line(piece, width, packed(stroke.color));
}

void FigureCanvas::polyline(std::span<const Point> points, const Stroke& stroke) {
  if (points.size() < 2 || stroke.color.a == 0) return;
  if (dash_pattern(stroke.dash).empty()) {
    solid_line(points, static_cast<float>(stroke.width), packed(stroke.color));
  } else {
    dashed_line(points, stroke);
  }
}

void FigureCanvas::polygon(std::span<const Point> points, Color fill) {
  path_.clear();
  for (const Point& p : points) path_.push_back(vec(p));
  list_->AddConvexPolyFilled(path_.data(), static_cast<int>(path_.size()), packed(fill));
}

void FigureCanvas::fill_rect(const Rect& rect, double corner_radius, Color fill) {
  list_->AddRectFilled(low(rect), high(rect), packed(fill), static_cast<float>(corner_radius));
}

void FigureCanvas::stroke_rect(const Rect& rect, double corner_radius, const Stroke& stroke) {
  if (dash_pattern(stroke.dash).empty()) {
    list_->AddRect(low(rect), high(rect), packed(stroke.color), static_cast<float>(corner_radius), 0,
                   static_cast<float>(stroke.width));
    return;
  }
  const Point corners[] = {{rect.x, rect.y},
                           {rect.right(), rect.y},
                           {rect.right(), rect.bottom()},
                           {rect.x, rect.bottom()},
                           {rect.x, rect.y}};
  polyline(corners, stroke);
}

void FigureCanvas::fill_circle(Point centre, double radius, Color fill) {
  list_->AddCircleFilled(vec(centre), static_cast<float>(radius), packed(fill));
}

void FigureCanvas::stroke_circle(Point centre, double radius, const Stroke& stroke) {
  if (dash_pattern(stroke.dash).empty()) {
    list_->AddCircle(vec(centre), static_cast<float>(radius), packed(stroke.color), radius > 60 ? 128 : 0,
                     static_cast<float>(stroke.width));
    return;
  }
  std::vector<Point> ring;
  for (int i = 0; i <= 128; ++i) {
    const double angle = 2 * std::numbers::pi * i / 128;
    ring.push_back({centre.x + radius * std::cos(angle), centre.y + radius * std::sin(angle)});
  }
  polyline(ring, stroke);
}

void FigureCanvas::text(Point place, std::string_view utf8, const TextStyle& style) {
  if (utf8.empty() || style.color.a == 0) return;
  const FontPick pick = fonts_->pick(style.face, style.size);
  const double width = text_width(utf8, style.size, style.face);
  const double shift = shift_of(style.anchor, width);
  const char* begin = utf8.data();
  const char* end = begin + utf8.size();
  if (style.rotation == 0) {
    list_->AddText(pick.font, pick.height,
                   {static_cast<float>(place.x - shift), std::round(static_cast<float>(place.y) - pick.baseline)},
                   packed(style.color), begin, end);
    return;
  }
  // Dear ImGui draws level text only and skips text outside of the clip rectangle, so the text is drawn at its corner,
  // then rotated.
  const ImVec2 corner = list_->GetClipRectMin();
  const int first = list_->VtxBuffer.Size;
  list_->AddText(pick.font, pick.height, corner, packed(style.color), begin, end);
  const double angle = -style.rotation * std::numbers::pi / 180, c = std::cos(angle), s = std::sin(angle);
  for (int i = first; i < list_->VtxBuffer.Size; ++i) {
    ImVec2& p = list_->VtxBuffer[i].pos;
    const double along = static_cast<double>(p.x - corner.x) - shift,
                 up = static_cast<double>(p.y - corner.y - pick.baseline);
    p = vec({std::round(place.x) + along * c - up * s, std::round(place.y) + along * s + up * c});
  }
}

void FigureCanvas::push_clip(const Rect& rect) { list_->PushClipRect(low(rect), high(rect), true); }

void FigureCanvas::pop_clip() { list_->PopClipRect(); }

void FigureCanvas::color_grid(const Rect& rect, int rows, int cols, std::span<const Color> cells) {
  const auto edge = [](double from, double length, int i, int n) {
    return static_cast<float>(std::round(from + length * i / n));
  };
  for (int r = 0; r < rows; ++r) {
    const float top = edge(rect.y, rect.height, r, rows), bottom = edge(rect.y, rect.height, r + 1, rows);
    for (int c = 0; c < cols; ++c) {
      const Color color =
          cells[static_cast<std::size_t>(r) * static_cast<std::size_t>(cols) + static_cast<std::size_t>(c)];
      if (color.a == 0) continue;
      list_->AddRectFilled({edge(rect.x, rect.width, c, cols), top}, {edge(rect.x, rect.width, c + 1, cols), bottom},
                           packed(color));
    }
  }
}

double FigureCanvas::text_width(std::string_view utf8, double size, FontFace face) const {
  if (utf8.empty()) return 0;
  const FontPick pick = fonts_->pick(face, size);
  return static_cast<double>(pick.font->CalcTextSizeA(pick.height, 1e9f, 0, utf8.data(), utf8.data() + utf8.size()).x);
}

}  // namespace afterglow
