// One axis: transforms between data and canvas, ranges for any data, ticks, and numbers as text.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "core/figure/figure.h"

namespace afterglow {

/// Smallest and largest of a set of numbers. Non-finite ones do not count.
struct Extent {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
  double smallest_positive = std::numeric_limits<double>::infinity();
  double smallest_magnitude = std::numeric_limits<double>::infinity();  ///< of the non-zero ones

  bool empty() const { return !(low <= high); }
  void add(double value);
  void add(std::span<const double> numbers);
  void add(const Extent& other);
};

/// How the ends of a fitted range are chosen.
enum class RangeFit {
  tight,   ///< exactly the data
  padded,  ///< a margin of a twentieth on both sides, so that no dot overlaps the frame
  nice     ///< outwards to a tick
};

/// A drawable range for data on this scale: finite, low < high, positive on a log axis, and wide enough that its ends
/// differ as numbers. Empty data give [0, 1] (log: [1, 10]); a single value sits in the middle; on a log axis values <=
/// 0 are left out.
Range fitted_range(const Extent& data, Scale scale, RangeFit fit);

/// Repairs a requested range: swaps reversed ends, and replaces an end that this scale cannot draw by that of
/// `fallback`.
Range usable_range(Range wanted, Scale scale, Range fallback);

/// The symlog threshold for an axis: the one that it sets, or the decade below its smallest non-zero magnitude, at most
/// six decades under the largest.
double symlog_threshold(const Axis& axis, const Extent& data);

/// A strictly monotonic map from data to canvas units. On a log axis values <= 0 map to -infinity (before mirroring).
class AxisTransform {
 public:
  AxisTransform() = default;
  /// `from` and `to` are the canvas coordinates of the low and the high end; `to < from` for a y axis.
  AxisTransform(Scale scale, Range range, double from, double to, double symlog_threshold = 1);

  double to_canvas(double value) const;
  double to_data(double place) const;
  Scale scale() const { return scale_; }
  Range range() const { return range_; }
  double from() const { return from_; }
  double to() const { return to_; }
  double threshold() const { return threshold_; }
  /// The value on a linear axis: value, log10(value) or asinh(value / threshold).
  double warped(double value) const;
  bool operator==(const AxisTransform&) const = default;

 private:
  double unwarped(double place) const;

  Scale scale_ = Scale::linear;
  Range range_;
  double from_ = 0, to_ = 1, threshold_ = 1;
  double warped_low_ = 0, slope_ = 1;
  double shrink_ = 1;  ///< 1/2 where high - low would overflow
};

struct Tick {
  double at = 0;
  std::string label{};  ///< empty for a minor tick
  bool is_minor = false;
};

/// At most about `max_labels` labelled ticks within the range, in ascending order: steps of 1, 2, 2.5 or 5 times a
/// power of ten; decades with minor ticks on a log axis; explicit ticks where the axis has them. No two labels are
/// equal, and there are at most 200 ticks.
std::vector<Tick> choose_ticks(const Axis& axis, const AxisTransform& transform, int max_labels);

/// Number for display: `digits` significant digits, minus sign U+2212, "1.0e−3" outside of 1e−3 to 1e6; "NaN", "∞",
/// "−∞".
std::string number_text(double value, int digits = 4);

/// "1,234,567", for counts.
std::string grouped_number(std::int64_t number);

/// A whole number as `grouped_number` writes it, any other one as `number_text` does.
std::string count_text(double number, int digits);

/// A place on an axis: the name of its tick, else the number, in groups where the axis counts.
std::string place_text(const Axis& axis, double at, int digits);

/// Tick text of a multiple of `step`: exactly the decimals that the step needs, "10k", "2.5M", "1e−3".
std::string tick_text(double value, double step, double max_magnitude);

/// Text of a power-of-ten tick; `plain` writes 0.01 … 100k, otherwise "1e−2" with "1" for one.
std::string decade_text(double value, bool plain);

}  // namespace afterglow
