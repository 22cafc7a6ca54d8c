// Values under the cursor: the same numbers as in the CSV file.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/figure/figure.h"
#include "core/figure/render.h"

namespace afterglow {

/// The name of a series up to ": ", after which the legend may show a measured value that changes. Series with the same
/// stem are hidden together.
std::string_view stem_of(std::string_view name);

/// The point of a series whose x is nearest to the cursor.
struct NearestPoint {
  std::size_t series = 0;
  std::size_t index = 0;
  std::string name;
  double x = 0;
  double y = 0;  ///< may be NaN or infinite, as in the data
  Ink ink;
};

/// For every line and bar series that the view shows, its point nearest to `x` (distance measured on the axis as shown,
/// so in decades on a log axis). Binary search where x is sorted. Empty series and scatter plots give no point.
std::vector<NearestPoint> nearest_points(const Figure& figure, const FigureView& view, double x);

/// The cell of a heat map under a position in data units.
struct HeatCell {
  int row = 0;
  int col = 0;
  double value = 0;
};
std::optional<HeatCell> heat_cell_at(const HeatMap& map, double x, double y);

}  // namespace afterglow
