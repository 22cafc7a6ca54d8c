// The drawing operations of figures; the window, SVG and cairo each implement them once.
#pragma once
#include <span>
#include <string>
#include <string_view>

#include "core/figure/palette.h"
#include "core/io/terminal_text.h"

namespace afterglow {

enum class FontFace { regular, semibold, mono };

/// Width of UTF-8 text in units of `size`, from the built-in table (Inter regular and semibold; 0.6 em per character
/// for the monospaced face). Within 3 % of the real fonts for Latin, Greek and the mathematics used here.
double text_width_of(std::string_view utf8, double size, FontFace face);

constexpr double ascent_of_font =
    0.75;  ///< height of capitals and digits over the baseline, in units of the size, with a small margin
constexpr double descent_of_font = 0.24;  ///< depth below the baseline
constexpr double line_height_of_font = 1.35;

/// Valid UTF-8 without control characters, as all figure files need: those and invalid bytes become U+FFFD.
std::string printable(std::string_view text);

/// A position on the canvas: pixels in the window, points (1/72 inch) in files. y grows downwards.
struct Point {
  double x = 0;
  double y = 0;
};

struct Rect {
  double x = 0;
  double y = 0;
  double width = 0;
  double height = 0;
  double right() const { return x + width; }
  double bottom() const { return y + height; }
  bool contains(Point p) const { return p.x >= x && p.x <= right() && p.y >= y && p.y <= bottom(); }
  bool overlaps(const Rect& o) const { return x < o.right() && o.x < right() && y < o.bottom() && o.y < bottom(); }
};

struct Stroke {
  Color color;
  double width = 1;
  Dash dash = Dash::solid;  ///< never `automatic`; lengths grow with the width, see `dash_pattern`
};

/// Lengths of the on and off parts of a dash, in multiples of the stroke width; empty for a solid line.
std::span<const double> dash_pattern(Dash dash);

struct TextStyle {
  double size = 12;  ///< height of the font in canvas units
  FontFace face = FontFace::regular;
  Color color;
  Anchor anchor = Anchor::start;  ///< which end of the text is at the given position
  double rotation = 0;            ///< degrees counter-clockwise around the position; figures use 0 and 90
};

/// A run of text with its own size and baseline, such as a base or its exponent.
struct TextRun {
  std::string text{};
  double x = 0;     ///< from the start of the whole text
  double rise = 0;  ///< of its baseline over that of the whole text
  double size = 12;
  double width = 0;
};

/// Distance from the start of a text of this width to its position.
constexpr double shift_of(Anchor anchor, double width) {
  return anchor == Anchor::start ? 0 : anchor == Anchor::middle ? width / 2 : width;
}

/// A drawing surface; without a back end it only measures. The position of a text is on its baseline. Colours have
/// alpha. A canvas draws nothing outside of the innermost clip rectangle.
class Canvas {
 public:
  virtual ~Canvas() = default;

  /// An open line through the points, with round joins. Fewer than two points draw nothing.
  virtual void polyline(std::span<const Point> /*points*/, const Stroke& /*stroke*/) {}
  /// A filled polygon without an outline; convex, so that any back end can fill it.
  virtual void polygon(std::span<const Point> /*points*/, Color /*fill*/) {}
  virtual void fill_rect(const Rect& /*rect*/, double /*corner_radius*/, Color /*fill*/) {}
  virtual void stroke_rect(const Rect& /*rect*/, double /*corner_radius*/, const Stroke& /*stroke*/) {}
  virtual void fill_circle(Point /*centre*/, double /*radius*/, Color /*fill*/) {}
  virtual void stroke_circle(Point /*centre*/, double /*radius*/, const Stroke& /*stroke*/) {}
  /// UTF-8 text; invalid bytes are drawn as U+FFFD.
  virtual void text(Point /*place*/, std::string_view /*utf8*/, const TextStyle& /*style*/) {}
  /// The runs of one text of this width, in one style except for their sizes. By default each is drawn by `text`; a
  /// canvas overrides it to keep them together as one text.
  virtual void text_runs(Point place, std::span<const TextRun> runs, double width, const TextStyle& style);
  virtual void push_clip(const Rect& /*rect*/) {}
  virtual void pop_clip() {}
  /// A grid of colours stretched over `rect` with hard cell edges: rows * cols colours, row-major, row 0 on top.
  virtual void color_grid(const Rect& /*rect*/, int /*rows*/, int /*cols*/, std::span<const Color> /*cells*/) {}

  /// Width of the text on this canvas; by default from the built-in table for Inter. The layout uses it, so that a
  /// canvas with a wider font clips no text.
  virtual double text_width(std::string_view utf8, double size, FontFace face) const;
  /// Size of a device pixel in canvas units. Curves are thinned to columns of this width.
  virtual double pixel() const { return 1; }
  /// Largest number of cells per side of a colour grid; larger heat maps are reduced to their extremes.
  virtual int grid_limit() const { return 1024; }
  /// Begins a named group; files store the name, the window ignores it.
  virtual void begin_group(std::string_view) {}
  virtual void end_group() {}
};

}  // namespace afterglow
