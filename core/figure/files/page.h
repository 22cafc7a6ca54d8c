// Pages for figures: sizes for journals and slides, and the drawing of one page.
#pragma once
#include "core/figure/render.h"

namespace afterglow {

enum class SizePreset {
  one_column,   ///< 85 mm wide
  two_columns,  ///< 178 mm wide
  slide         ///< 254 mm x 142.9 mm, 16:9
};

/// Canvas units of a page are points, 1/72 inch.
struct PageSize {
  double width_mm = 85;
  double height_mm = 60;
  double text_pt = 7.5;     ///< size of labels; titles are a little larger, strokes scale with it
  bool shows_title = true;  ///< false where a caption replaces it

  double width_pt() const { return width_mm * 72 / 25.4; }
  double height_pt() const { return height_mm * 72 / 25.4; }
};

/// The preset's page. Its height depends on the figure: nearly square where it keeps its aspect, otherwise 5 : 7 or
/// flatter, plus the rows of a long legend. A slide has a fixed height.
PageSize page_size(SizePreset preset, const Figure& figure);

/// The same page with its numbers limited to 10 mm to 2 m, text to 2 to 72 points.
PageSize usable_page(PageSize page);

/// Fills the page with the theme's panel colour and draws the figure with its title. The view sets hidden series,
/// ranges and cursors; the page sets text size and title.
FigureGeometry draw_page(const Figure& figure, const PageSize& page, const Theme& theme, const FigureView& view,
                         Canvas& canvas);

/// Width of the columns to which curves are thinned: 300 dpi, and never more than 2000 columns on a page, so that files
/// stay small.
double page_pixel(const PageSize& page);

}  // namespace afterglow
