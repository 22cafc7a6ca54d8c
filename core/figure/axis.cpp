// Transforms of one axis and the ranges that make them drawable.
#include "core/figure/axis.h"

#include <algorithm>
#include <cmath>

namespace afterglow {
namespace {

// Closer ends than this would get equal tick labels, and inverse transforms would lose all digits.
constexpr double narrowest_relative = 1e-12;
constexpr double narrowest_absolute = 1e-290;
constexpr double largest = 1.7e308;
constexpr double smallest_on_log = 1e-300;

double half_width(Range r) { return 0.5 * r.high - 0.5 * r.low; }

Range widened(Range r) {
  const double magnitude = std::max(std::abs(r.low), std::abs(r.high));
  const double needed = std::max(magnitude * narrowest_relative, narrowest_absolute);
  if (2 * half_width(r) >= needed) return r;
  const double centre = 0.5 * r.low + 0.5 * r.high;
  const double half = magnitude > 0 ? std::max(0.1 * magnitude, narrowest_absolute) : 1;
  return {std::clamp(centre - half, -largest, largest), std::clamp(centre + half, -largest, largest)};
}

Range widened_on_log(Range r) {
  r = {std::clamp(r.low, smallest_on_log, 1e300), std::clamp(r.high, smallest_on_log, 1e300)};
  if (std::log10(r.high) - std::log10(r.low) >= 1e-9) return r;
  const double root = std::sqrt(10.0);
  return {r.low / root, r.high * root};
}

double nice_step_for(double width_over_labels) {
  const double power = std::pow(10.0, std::floor(std::log10(width_over_labels)));
  for (const double factor : {1.0, 2.0, 2.5, 5.0}) {
    if (factor * power >= width_over_labels * (1 - 1e-9)) return factor * power;
  }
  return 10 * power;
}

Range nice_linear(Range r) {
  const double step = nice_step_for(2 * (half_width(r) / 5));
  const Range outer{std::floor(r.low / step + 1e-9) * step, std::ceil(r.high / step - 1e-9) * step};
  const bool usable = std::isfinite(outer.low) && std::isfinite(outer.high) && outer.low < outer.high;
  return usable ? outer : r;
}

// Rounds down to a power of ten (`to_decade`, where several decades are shown), otherwise to 1, 2 or 5 times one.
double log_floor(double value, bool to_decade) {
  const double power = std::pow(10.0, std::floor(std::log10(value) + 1e-9));
  if (to_decade) return power;
  const double factor = value / power;
  return power * (factor >= 5 * (1 - 1e-9) ? 5 : factor >= 2 * (1 - 1e-9) ? 2 : 1);
}

double log_ceil(double value, bool to_decade) {
  const double power = std::pow(10.0, std::ceil(std::log10(value) - 1e-9));
  if (to_decade) return power;
  const double factor = value / power;
  return power * (factor <= 0.2 * (1 + 1e-9) ? 0.2 : factor <= 0.5 * (1 + 1e-9) ? 0.5 : 1);
}

Range fitted_log(const Extent& data, RangeFit fit) {
  if (!std::isfinite(data.smallest_positive)) return {1, 10};
  Range r = widened_on_log({data.smallest_positive, std::max(data.high, data.smallest_positive)});
  const double decades = std::log10(r.high / r.low);
  if (fit == RangeFit::padded) {
    const double air = std::pow(10.0, 0.04 * decades);
    r = {r.low / air, r.high * air};
  } else if (fit == RangeFit::nice) {
    r = {log_floor(r.low, decades > 2.5), log_ceil(r.high, decades > 2.5)};
  }
  return widened_on_log(r);
}

double outward_decade(double value) {
  if (value == 0) return 0;
  const double size = std::min(std::pow(10.0, std::ceil(std::log10(std::abs(value)) - 1e-9)), 1e308);
  return std::copysign(size, value);
}

// Rounds an end outwards only where that is away from zero; other ends stay.
Range fitted_symlog(Range r, RangeFit fit) {
  if (fit == RangeFit::tight) return r;
  if (r.low < 0) r.low = outward_decade(r.low);
  if (r.high > 0) r.high = outward_decade(r.high);
  return r;
}

// asinh(value / threshold), also where the ratio overflows.
double symlog(double ratio, double value, double threshold) {
  if (std::abs(ratio) < 1e150) return std::asinh(ratio);
  return std::copysign(std::log(2) + std::log(std::abs(value)) - std::log(threshold), value);
}

}  // namespace

void Extent::add(double value) {
  if (!std::isfinite(value)) return;
  low = std::min(low, value);
  high = std::max(high, value);
  if (value > 0) smallest_positive = std::min(smallest_positive, value);
  if (value != 0) smallest_magnitude = std::min(smallest_magnitude, std::abs(value));
}

void Extent::add(std::span<const double> numbers) {
  for (const double value : numbers) add(value);
}

void Extent::add(const Extent& other) {
  low = std::min(low, other.low);
  high = std::max(high, other.high);
  smallest_positive = std::min(smallest_positive, other.smallest_positive);
  smallest_magnitude = std::min(smallest_magnitude, other.smallest_magnitude);
}

Range fitted_range(const Extent& data, Scale scale, RangeFit fit) {
  if (scale == Scale::log) return fitted_log(data, fit);
  if (data.empty()) return {0, 1};
  Range r = widened({std::max(data.low, -largest), std::min(data.high, largest)});
  if (scale == Scale::symlog) return widened(fitted_symlog(r, fit));
  if (fit == RangeFit::nice) return nice_linear(r);
  if (fit == RangeFit::padded) {
    const double air = 0.1 * half_width(r);
    r = {std::max(r.low - air, -largest), std::min(r.high + air, largest)};
  }
  return r;
}

Range usable_range(Range wanted, Scale scale, Range fallback) {
  if (wanted.low > wanted.high) std::swap(wanted.low, wanted.high);
  if (!std::isfinite(wanted.low)) wanted.low = fallback.low;
  if (!std::isfinite(wanted.high)) wanted.high = fallback.high;
  if (scale == Scale::log) {
    if (wanted.high <= 0) return fallback;
    if (wanted.low <= 0) wanted.low = std::min(fallback.low, wanted.high / 10);
  }
  if (wanted.low > wanted.high) return fallback;
  return scale == Scale::log ? widened_on_log(wanted) : widened(wanted);
}

double symlog_threshold(const Axis& axis, const Extent& data) {
  if (axis.symlog_threshold > 0 && std::isfinite(axis.symlog_threshold)) return axis.symlog_threshold;
  if (!std::isfinite(data.smallest_magnitude)) return 1;
  const double most = std::max(std::abs(data.low), std::abs(data.high));
  const double wanted = std::max(data.smallest_magnitude, most * 1e-6);
  return std::max(std::pow(10.0, std::floor(std::log10(wanted) + 1e-9)), smallest_on_log);
}

AxisTransform::AxisTransform(Scale scale, Range range, double from, double to, double threshold)
    : scale_(scale), range_(range), from_(from), to_(to), threshold_(threshold > 0 ? threshold : 1) {
  if (scale_ == Scale::linear && !std::isfinite(range.high - range.low)) shrink_ = 0.5;
  warped_low_ = warped(range.low);
  slope_ = (to - from) / (warped(range.high) - warped_low_);
}

double AxisTransform::warped(double value) const {
  if (scale_ == Scale::log) return value > 0 ? std::log10(value) : -std::numeric_limits<double>::infinity();
  return scale_ == Scale::symlog ? symlog(value / threshold_, value, threshold_) : value * shrink_;
}

double AxisTransform::unwarped(double place) const {
  if (scale_ == Scale::log) return std::pow(10.0, place);
  if (scale_ == Scale::linear) return place / shrink_;
  if (std::abs(place) < 300) return std::sinh(place) * threshold_;  // above, sinh may overflow before the product
  return std::copysign(std::exp(std::abs(place) - std::log(2) + std::log(threshold_)), place);
}

double AxisTransform::to_canvas(double value) const { return from_ + (warped(value) - warped_low_) * slope_; }

double AxisTransform::to_data(double place) const { return unwarped(warped_low_ + (place - from_) / slope_); }

}  // namespace afterglow
