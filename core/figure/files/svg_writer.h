// SVG 1.1 of a figure: paths, real text, groups and clip paths; nothing that LaTeX, Inkscape or a browser could trip
// over.
#pragma once
#include <string>

#include "core/figure/files/page.h"

namespace afterglow {

/// The whole document. The same figure gives the same bytes, whatever the locale. Coordinates are points, rounded to
/// 0.01. The curve of series i lies in `<g id="ID-series-i">`; the recipe in `<metadata>`.
std::string svg_text(const Figure& figure, const PageSize& page, const Theme& theme = light_theme(),
                     const FigureView& view = {});

}  // namespace afterglow
