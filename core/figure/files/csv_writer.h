// The numbers of a figure as RFC 4180 text: the same numbers that are drawn, to the last bit.
#pragma once
#include <string>

#include "core/figure/figure.h"
#include "core/figure/render.h"

namespace afterglow {

/// UTF-8, CRLF, one header row with units in brackets, decimal points whatever the locale, shortest digits that read
/// back exactly; `nan`, `inf`, `-inf`. Which form:
/// - only lines and bars: wide, x first, one column for each series ("NAME (raw)" for values before smoothing, "NAME
///   (before)" for earlier values of bars). Where the series have different x, rows are the union of all x in ascending
///   order and a missing value is an empty field (a NaN is written `nan`). Needs every x strictly ascending and finite;
/// - one heat map alone: a matrix, column labels in the header, row labels first;
/// - everything else: long, one row a point: series, x, y, size (radius of a dot; empty for others). Trails are series
/// "NAME trail N". Reference lines, events and texts are not data and are left out.
/// Files end with the recipe in a `#` comment (`carried_recipe.h`).
std::string csv_text(const Figure& figure);

/// The same of what the view shows: hidden series left out, points outside its ranges left out (not in a matrix).
std::string csv_text_of_view(const Figure& figure, const FigureView& view);

}  // namespace afterglow
