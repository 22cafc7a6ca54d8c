// A canvas on the draw list of a Dear ImGui window: it draws figures and the page itself with the same strokes.
#pragma once
#include <imgui.h>

#include "core/figure/canvas.h"
#include "views/look/fonts.h"

namespace afterglow {

inline ImU32 packed(Color c) { return IM_COL32(c.r, c.g, c.b, c.a); }

class FigureCanvas final : public Canvas {
 public:
  FigureCanvas(ImDrawList& list, const FontSet& fonts) : list_(&list), fonts_(&fonts) {}

  void polyline(std::span<const Point> points, const Stroke& stroke) override;
  void polygon(std::span<const Point> points, Color fill) override;
  void fill_rect(const Rect& rect, double corner_radius, Color fill) override;
  void stroke_rect(const Rect& rect, double corner_radius, const Stroke& stroke) override;
  void fill_circle(Point centre, double radius, Color fill) override;
  void stroke_circle(Point centre, double radius, const Stroke& stroke) override;
  void text(Point place, std::string_view utf8, const TextStyle& style) override;
  void push_clip(const Rect& rect) override;
  void pop_clip() override;
  void color_grid(const Rect& rect, int rows, int cols, std::span<const Color> cells) override;
  double text_width(std::string_view utf8, double size, FontFace face) const override;
  int grid_limit() const override { return 128; }

 private:
  void solid_line(std::span<const Point> points, float width, ImU32 color);
  void dashed_line(std::span<const Point> points, const Stroke& stroke);

  ImDrawList* list_;
  const FontSet* fonts_;
  std::vector<ImVec2> path_;  ///< reused for all strokes
};

}  // namespace afterglow
