// The visible range of both axes of a figure.
#pragma once
#include "core/figure/axis.h"
#include "core/figure/render.h"

namespace afterglow {

struct FigureRanges {
  Axis x_axis, y_axis;    ///< with the scale that the view shows
  Extent x_data, y_data;  ///< of all series, also hidden ones, so that hiding one does not move the axes
  Range x, y;
  bool has_heat_map = false;
};

FigureRanges figure_ranges(const Figure& figure, const FigureView& view);

/// The axis with the scale of the view.
Axis shown_axis(const Axis& axis, const std::optional<Scale>& scale);

}  // namespace afterglow
