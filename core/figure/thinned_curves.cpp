// The store of thinned curves.
#include <algorithm>

#include "core/figure/decimate.h"

namespace afterglow {
namespace {

/// Number of leading columns within the first `points` points, less the last one, which may have ended with the curve.
std::size_t settled_columns(const std::vector<CurveColumn>& columns, std::size_t points) {
  const auto end = std::ranges::upper_bound(columns, points, {}, &CurveColumn::last);
  const auto count = static_cast<std::size_t>(end - columns.begin());
  return count > 0 ? count - 1 : 0;
}

}  // namespace

void ThinnedCurves::begin_drawing() {
  kept_.remove_if([](const Kept& kept) { return !kept.was_asked_for; });
  for (Kept& kept : kept_) kept.was_asked_for = false;
}

std::shared_ptr<const CanvasCurve> ThinnedCurves::get(std::size_t series, const Curve& curve, const AxisTransform& x,
                                                      const AxisTransform& y, double column) {
  const CurveView view(curve);
  if (!curve.pyramid || !view.is_sorted()) return std::make_shared<CanvasCurve>(thinned_curve(view, x, y, column));
  for (Kept& kept : kept_) {
    if (kept.pyramid != curve.pyramid || kept.x != x || kept.y != y || kept.column != column) continue;
    kept.was_asked_for = true;
    return kept.picture;
  }
  const Known known = known_columns(series, *curve.pyramid, x, y, column);
  std::vector<CurveColumn> columns;
  if (known.kept)
    columns.assign(known.kept->columns.begin(),
                   known.kept->columns.begin() + static_cast<std::ptrdiff_t>(known.columns));
  columns = curve_columns(view, x, column, std::move(columns));
  CanvasCurve begun;
  PlacingState state;
  if (known.kept && known.kept->y == y && known.kept->settled.columns <= known.columns) {
    begun = *known.kept->picture;
    state = known.kept->settled;
  }
  const std::size_t settled = settled_columns(columns, curve.pyramid->shared_points(*curve.pyramid));
  auto picture = std::make_shared<CanvasCurve>(placed_columns(view, columns, x, y, std::move(begun), state, settled));
  kept_.push_back({series, curve.pyramid, x, y, column, true, std::move(columns), picture, state});
  return picture;
}

/// The earlier thinned curve that saves most work; one with the same y axis is preferred.
ThinnedCurves::Known ThinnedCurves::known_columns(std::size_t series, const CurvePyramid& pyramid,
                                                  const AxisTransform& x, const AxisTransform& y, double column) const {
  Known best;
  for (const Kept& kept : kept_) {
    if (kept.series != series || kept.x != x || kept.column != column) continue;
    const std::size_t count = settled_columns(kept.columns, pyramid.shared_points(*kept.pyramid));
    const bool is_nearer = best.kept && kept.y == y && best.kept->y != y;
    if (count > 0 && (count > best.columns || (count == best.columns && is_nearer))) best = {&kept, count};
  }
  return best;
}

}  // namespace afterglow
