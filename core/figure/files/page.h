// Pages for figures: sizes for journals and slides, the drawing of one page, and its SVG, PDF and PNG.
#pragma once
#include <filesystem>
#include <functional>
#include <string>

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

/// A PDF 1.4 page, by cairo, with text as text, fonts embedded, and the recipe. Equal figures give equal bytes on one
/// machine. Throws Error(failure) when this build has no page writer or cairo fails.
std::string pdf_bytes(const Figure& figure, const PageSize& page, const Theme& theme = light_theme(),
                      const FigureView& view = {});

/// A PDF of several pages. `draw` gets the canvas of the first one, and a function that begins the next. Throws as
/// `pdf_bytes`.
std::string pdf_document(const PageSize& page, const std::string& title,
                         const std::function<void(Canvas& canvas, const std::function<void()>& next_page)>& draw);

/// A picture of the page at its physical size, with the recipe. Throws like `pdf_bytes`, and Error(bad_input) beyond
/// 16,000 pixels a side.
std::string png_bytes(const Figure& figure, const PageSize& page, const Theme& theme = light_theme(),
                      const FigureView& view = {}, double dots_per_inch = 300);

/// Adds the fonts of this folder for systems that lack them. Call before the first page.
void add_page_fonts(const std::filesystem::path& folder);

/// Whether this build writes PDF and PNG.
bool has_page_writer();

/// SVG 1.1 with paths, real text, groups and clip paths, which LaTeX, Inkscape and browsers support. Equal figures give
/// equal bytes in any locale. Coordinates are points, rounded to 0.01. The curve of series i is in `<g
/// id="ID-series-i">`, the recipe in `<metadata>`. `geometry` receives the places of what was drawn.
std::string svg_text(const Figure& figure, const PageSize& page, const Theme& theme = light_theme(),
                     const FigureView& view = {}, FigureGeometry* geometry = nullptr);

/// The same as an element of a web page, in light colours and without the recipe; screen readers read its summary.
std::string html_picture(const Figure& figure, const PageSize& page, FigureGeometry* geometry = nullptr);

}  // namespace afterglow
