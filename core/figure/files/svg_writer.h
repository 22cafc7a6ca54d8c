// SVG 1.1 of a figure with paths, real text, groups and clip paths: features that LaTeX, Inkscape and browsers support.
#pragma once
#include <string>

#include "core/figure/files/page.h"

namespace afterglow {

/// The whole document. Equal figures give equal bytes in any locale. Coordinates are points, rounded to
/// 0.01. The curve of series i is in `<g id="ID-series-i">`, the recipe in `<metadata>`. `geometry` receives the
/// places of what was drawn.
std::string svg_text(const Figure& figure, const PageSize& page, const Theme& theme = light_theme(),
                     const FigureView& view = {}, FigureGeometry* geometry = nullptr);

/// The same as an element of a web page, in light colours and without the recipe; screen readers read its summary.
std::string html_picture(const Figure& figure, const PageSize& page, FigureGeometry* geometry = nullptr);

}  // namespace afterglow
