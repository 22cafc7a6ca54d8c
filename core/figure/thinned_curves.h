// Caches the thinned curves of a plot between drawings, so that a frame without new data thins nothing and one with new
// data thins only the new end. The result is always that of `thinned_curve`.
#pragma once
#include <list>

#include "core/figure/decimate.h"

namespace afterglow {

class ThinnedCurves {
 public:
  /// Call before each drawing: removes curves that the last drawing did not use.
  void begin_drawing();
  /// The curve of this series on these axes, valid until the next drawing begins.
  std::shared_ptr<const CanvasCurve> get(std::size_t series, const Curve& curve, const AxisTransform& x,
                                         const AxisTransform& y, double column);
  std::size_t size() const { return kept_.size(); }

 private:
  struct Kept {
    std::size_t series;
    std::shared_ptr<const CurvePyramid> pyramid;
    AxisTransform x, y;
    double column;
    bool was_asked_for;
    std::vector<CurveColumn> columns;
    std::shared_ptr<const CanvasCurve> picture;
    PlacingState settled;  ///< state after the columns that new points do not change
  };
  struct Known {
    const Kept* kept = nullptr;
    std::size_t columns = 0;
  };
  Known known_columns(std::size_t series, const CurvePyramid& pyramid, const AxisTransform& x, const AxisTransform& y,
                      double column) const;
  std::list<Kept> kept_;
};

}  // namespace afterglow
