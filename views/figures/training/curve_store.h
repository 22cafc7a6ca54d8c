// Caches results of growing curves while they are visible, so that each new point costs only its own work. The result
// depends on the curve alone, never on former requests.
#pragma once
#include <memory>
#include <string>

#include "core/engine/observation/curve.h"
#include "core/figure/decimate.h"
#include "core/figure/figure.h"
#include "views/figures/recently_used.h"

namespace afterglow {

/// The conversion of values[i] of a published curve into a point: x = first_x + i, or from an abscissa.
struct CurveSource {
  Values values;
  double first_x = 1;
  Values abscissa;  ///< when not empty: the x of each value
};

class CurveStore {
 public:
  /// The curve without smoothing.
  Curve raw(const std::string& key, const CurveSource& source);
  /// Exponential average with bias correction: s_t = a s_{t-1} + (1 - a) v_t, shown as s_t / (1 - a^n) after n finite
  /// values, so that early values count fully and former points never change. Non-finite values stay in their places
  /// and do not enter the average.
  Curve smoothed(const std::string& key, const CurveSource& source, double smoothing);
  /// Mean of the finite ones among the last `window` values, or of as many as there are: former points never change.
  Curve averaged(const std::string& key, const CurveSource& source, int window);

 private:
  struct Filter {
    double smoothing = 0;
    std::size_t window = 0;
    bool operator==(const Filter&) const = default;
  };
  struct Kept {
    Values seen;
    double first_x = 1;
    Filter filter;
    CurvePyramid pyramid;
    double average = 0, weight = 1;  ///< weight: a^n
    double sum = 0;                  ///< of the finite values in the window
    std::size_t count = 0;           ///< of them
    std::shared_ptr<const CurvePyramid> shared;

    double filtered(const Values& values, std::size_t i);
    double window_mean(const Values& values, std::size_t i);
  };
  Curve grown(const std::string& key, const CurveSource& source, const Filter& filter);
  RecentlyUsed<Kept> kept_;
};

}  // namespace afterglow
