// Keeps the thinned curves of a plot from one drawing to the next, so that a frame without new data thins nothing and
// one with new data thins only their end. What comes out is always what `thinned_curve` gives.
#pragma once
#include <list>

#include "core/figure/decimate.h"

namespace afterglow {

class ThinnedCurves {
 public:
  /// A drawing begins: what the last one did not ask for is forgotten, so that a plot keeps what it shows and no more.
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
    PlacingState settled;  ///< of the picture, after columns that new points leave as they are
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
