// The store of thinned curves.
#include "core/figure/thinned_curves.h"

namespace afterglow {

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
  std::vector<CurveColumn> columns = curve_columns(view, x, column, known_columns(series, *curve.pyramid, x, column));
  auto picture = std::make_shared<CanvasCurve>(placed_columns(view, columns, x, y));
  kept_.push_back({series, curve.pyramid, x, y, column, true, std::move(columns), picture});
  return picture;
}

/// Leading columns of an earlier picture of the curve that its new points leave as they are: those within what both
/// share, but for the last one, which may have ended where the curve did.
std::vector<CurveColumn> ThinnedCurves::known_columns(std::size_t series, const CurvePyramid& pyramid,
                                                      const AxisTransform& x, double column) const {
  std::vector<CurveColumn> best;
  for (const Kept& kept : kept_) {
    if (kept.series != series || kept.x != x || kept.column != column) continue;
    const std::size_t shared = pyramid.shared_points(*kept.pyramid);
    auto end = kept.columns.begin();
    while (end != kept.columns.end() && end->last <= shared) ++end;
    if (end != kept.columns.begin()) --end;
    const std::size_t count = static_cast<std::size_t>(end - kept.columns.begin());
    if (count > best.size()) best.assign(kept.columns.begin(), end);
  }
  return best;
}

}  // namespace afterglow
