// The parts of one drawing, shared by the files that draw them.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "core/figure/decimate.h"
#include "core/figure/layout.h"
#include "core/figure/render.h"

namespace afterglow {

/// A coarse map of where the figure has ink, to find free places for labels: square cells over a rectangle. Marking and
/// counting cost O(cells touched).
class Occupancy {
 public:
  Occupancy(const Rect& area, double cell);
  void add_polyline(std::span<const Point> points);
  void add_rect(const Rect& rect);
  /// Number of cells with ink that the rectangle touches; parts outside the area do not count.
  int inked_cells(const Rect& rect) const;
  bool is_free(const Rect& rect) const { return inked_cells(rect) == 0; }

 private:
  struct Span {
    int first_col, last_col, first_row, last_row;
  };
  Span span_of(const Rect& rect) const;
  void mark(Point p);

  Rect area_;
  double cell_;
  int cols_, rows_;
  std::vector<unsigned char> ink_;
};

/// Everything that drawing a figure needs to know.
struct Painter {
  const Figure& figure;
  const Theme& theme;
  const FigureView& view;
  Canvas& canvas;
  Measures m;
  const FigureLayout& layout;

  bool is_stressed(const std::string& name) const;  ///< hovered or selected
  /// Opacity: 1, or less where another series is stressed.
  double strength(const std::string& name) const;
  Stroke hairline(Color color) const { return {color, m.unit, Dash::solid}; }
  void text(Point place, const std::string& utf8, Color color, double size, Anchor anchor,
            FontFace face = FontFace::regular) const;
  double width(const std::string& utf8, double size) const;
};

/// A line thinned for this canvas.
struct DrawnLine {
  std::size_t series = 0;
  std::shared_ptr<const CanvasCurve> curve, raw;  ///< never null
};

/// Whether it belongs to a second run, which the subtitle names.
inline bool is_outlined(const Series& series) {
  return std::visit(
      [](const auto& one) {
        if constexpr (requires { one.is_outlined; }) return one.is_outlined;
        return false;
      },
      series);
}

inline bool is_inside(const Rect& rect, const Rect& area) {
  return area.contains(Point{rect.x, rect.y}) && area.contains(Point{rect.right(), rect.bottom()});
}

/// A label or legend entry with its place.
struct PlacedLabel {
  std::size_t series = 0;
  std::string text;
  Rect rect;
  bool is_legend = false;   ///< with a swatch; otherwise at the end of its curve
  bool is_cut = false;      ///< its name ends with "…"
  bool is_rest = false;     ///< the entry "+3" for the names without room
  bool has_leader = false;  ///< moved away from its curve, with a thin line to it
  Point curve_end;
};

/// The lines of the figure that the view shows, thinned for this canvas.
std::vector<DrawnLine> thin_lines(const Painter& p);
/// The ink of the plot without labels.
Occupancy ink_of(const Painter& p, const std::vector<DrawnLine>& lines);

// painter_axes.cpp
void draw_grid(const Painter& p);
void draw_frame(const Painter& p);  ///< frame, ticks, numbers, titles
void draw_color_bars(const Painter& p, FigureGeometry& geometry);

// painter_series.cpp
void draw_heat_map(const Painter& p, const HeatMap& map);
void draw_bars(const Painter& p, const Bars& bars);
void draw_scatter(const Painter& p, std::size_t series, FigureGeometry& geometry);
void draw_line(const Painter& p, const DrawnLine& line);
void draw_flaw(const Painter& p, const FlawMark& mark, Ink ink);
void draw_marker(Canvas& canvas, Marker marker, Point place, double radius, Color color);
/// A marker; of an outlined series only its edge.
void draw_marker(const Painter& p, Marker marker, Point place, double radius, Color color, bool is_outlined);
std::vector<Rect> bar_rects(const Painter& p, const Bars& bars, bool before);

// painter_marks.cpp
void draw_reference_shapes(const Painter& p);
/// Marks the places of the labels as inked, so that the legend takes another corner.
void reserve_reference_labels(const Painter& p, Occupancy& ink);
void draw_reference_labels(const Painter& p, Occupancy& ink);
void draw_point_labels(const Painter& p, const FigureGeometry& geometry, Occupancy& ink);
void draw_text_labels(const Painter& p, Occupancy& ink);
void draw_events(const Painter& p, Occupancy& ink);
void draw_cursors(const Painter& p);
void draw_cursor_tags(const Painter& p);  ///< on top of everything

// painter_labels.cpp
/// Room for labels at the curves right of the plot; nullopt when they do not all fit there.
std::optional<double> right_room_for_labels(const Painter& p);
/// Labels at the curves; nullopt when there is no free place for one of them.
std::optional<std::vector<PlacedLabel>> labels_at_curves(const Painter& p, Occupancy& ink);
/// Entries for the series not labelled yet, in a free corner of the plot; nullopt when every corner has ink, or the
/// label of a reference line unless those may be covered.
std::optional<std::vector<PlacedLabel>> legend_inside(const Painter& p, const std::vector<PlacedLabel>& labelled,
                                                      Occupancy& ink, bool covers_reference_labels = false);
/// How a legend names a series: by its name, or where there is little room by its stem (readout.h).
enum class LegendNames { whole, stems };
/// A legend in rows above the plot. Its last entry counts the names that do not fit into `most_rows`.
struct LegendAbove {
  std::vector<PlacedLabel> entries;
  std::size_t rows = 0;
  double height = 0;
};
LegendAbove legend_above(const Painter& p, LegendNames names, std::size_t most_rows);
void draw_labels(const Painter& p, const std::vector<PlacedLabel>& labels, FigureGeometry& geometry);

}  // namespace afterglow
