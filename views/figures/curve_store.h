// Keeps what was computed of growing curves, so that each new point costs its own share and no more. What comes out
// depends on the curve alone, never on what was asked before.
#pragma once
#include <map>
#include <memory>
#include <string>

#include "core/engine/observation/curve.h"
#include "core/figure/decimate.h"
#include "core/figure/figure.h"

namespace afterglow {

/// How values[i] of a published curve becomes a point: x = first_x + i, or an abscissa of its own.
struct CurveSource {
  Values values;
  double first_x = 1;
  Values abscissa;  ///< when not empty: the x of each value
};

class CurveStore {
 public:
  /// The curve as it is.
  Curve raw(const std::string& key, const CurveSource& source);
  /// Exponential average with bias correction: s_t = a s_{t-1} + (1 - a) v_t, shown as s_t / (1 - a^n) after n finite
  /// values, so that early values count fully and the past never moves. Non-finite values stay where they are and do
  /// not enter the average.
  Curve smoothed(const std::string& key, const CurveSource& source, double smoothing);

 private:
  struct Kept {
    Values seen;
    double first_x = 1, smoothing = 0;
    CurvePyramid pyramid;
    double average = 0, weight = 1;  ///< weight: a^n
    std::shared_ptr<const CurvePyramid> shared;
  };
  Curve grown(const std::string& key, const CurveSource& source, double smoothing);
  std::map<std::string, Kept> kept_;
};

}  // namespace afterglow
