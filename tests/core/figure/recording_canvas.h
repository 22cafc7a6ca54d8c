// A canvas that remembers what was drawn, so that tests can ask where things are.
#pragma once
#include <string>
#include <vector>

#include "core/figure/canvas.h"

namespace afterglow {

class RecordingCanvas : public Canvas {
 public:
  struct Text {
    std::string text;
    Rect box;  ///< what the text covers, by the built-in widths
  };
  struct Polyline {
    std::vector<Point> points;
    Stroke stroke;
  };
  struct Grid {
    Rect rect;
    int rows, cols;
    std::vector<Color> cells;
  };

  void polyline(std::span<const Point> points, const Stroke& stroke) override {
    polylines.push_back({{points.begin(), points.end()}, stroke});
  }
  void polygon(std::span<const Point> points, Color fill) override {
    polygons.push_back({points.begin(), points.end()});
    polygon_colors.push_back(fill);
  }
  void fill_rect(const Rect& rect, double, Color) override { rects.push_back(rect); }
  void stroke_rect(const Rect& rect, double, const Stroke&) override { frames.push_back(rect); }
  void fill_circle(Point centre, double, Color) override { circles.push_back(centre); }
  void stroke_circle(Point centre, double, const Stroke&) override { rings.push_back(centre); }
  void text(Point place, std::string_view utf8, const TextStyle& style) override;
  void text_runs(Point place, std::span<const TextRun> runs, double width, const TextStyle& style) override;
  void push_clip(const Rect&) override { ++open_clips; }
  void pop_clip() override { --open_clips; }
  void color_grid(const Rect& rect, int rows, int cols, std::span<const Color> cells) override {
    grids.push_back({rect, rows, cols, {cells.begin(), cells.end()}});
  }

  /// Whether this text was drawn; one in pieces is written with a "^" before what is raised.
  bool shows(std::string_view text) const;

  std::vector<Polyline> polylines;
  std::vector<std::vector<Point>> polygons;
  std::vector<Color> polygon_colors;
  std::vector<Rect> rects, frames;
  std::vector<Point> circles, rings;
  std::vector<Text> texts;
  std::vector<std::string> texts_in_pieces;
  std::vector<Grid> grids;
  int open_clips = 0;
};

}  // namespace afterglow
