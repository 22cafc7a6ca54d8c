// The visible range of both axes of a figure.
#pragma once
#include "core/figure/axis.h"
#include "core/figure/render.h"

namespace afterglow {

struct FigureRanges {
  Axis x_axis, y_axis;    ///< as the view shows them
  Extent x_data, y_data;  ///< of everything in the figure, hidden or not, so that hiding moves nothing
  Range x, y;
  bool has_heat_map = false;
};

FigureRanges figure_ranges(const Figure& figure, const FigureView& view);

/// The axis with the scale that the view wants.
Axis shown_axis(const Axis& axis, const std::optional<Scale>& scale);

}  // namespace afterglow
