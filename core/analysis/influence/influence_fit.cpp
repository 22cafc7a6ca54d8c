// Least-squares laws of a tail.
#include "core/analysis/influence/influence_fit.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <vector>

namespace afterglow {
namespace {

constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

double mean_of(const std::vector<double>& x) {
  double sum = 0.0;
  for (const double value : x) sum += value;
  return sum / static_cast<double>(x.size());
}

LineFit fit_line(const std::vector<double>& x, const std::vector<double>& y) {
  const double mean_x = mean_of(x), mean_y = mean_of(y);
  double xx = 0.0, xy = 0.0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    xx += (x[i] - mean_x) * (x[i] - mean_x);
    xy += (x[i] - mean_x) * (y[i] - mean_y);
  }
  LineFit fit;
  fit.slope = xy / xx;
  fit.intercept = mean_y - fit.slope * mean_x;
  double squares = 0.0;
  for (std::size_t i = 0; i < x.size(); ++i) squares += std::pow(y[i] - fit.intercept - fit.slope * x[i], 2);
  fit.residual = std::sqrt(squares / static_cast<double>(x.size()));
  const int degrees = static_cast<int>(x.size()) - 2;
  const double half = degrees > 0 ? student_t_975(degrees) * std::sqrt(squares / degrees / xx) : INFINITY;
  fit.slope_low = fit.slope - half;
  fit.slope_high = fit.slope + half;
  return fit;
}

/// Of fits that are both exact up to rounding neither is better: a constant is both laws at once.
InfluenceLaw better_law(const InfluenceFit& fit) {
  constexpr double rounding = 1e-13;
  if (fit.points < 3 || std::max(fit.power.residual, fit.exponential.residual) < rounding) return InfluenceLaw::none;
  if (fit.power.residual < fit.exponential.residual) return InfluenceLaw::power;
  return fit.exponential.residual < fit.power.residual ? InfluenceLaw::exponential : InfluenceLaw::none;
}

double preference_of(const InfluenceFit& fit) {
  const bool is_power = fit.law == InfluenceLaw::power;
  const double chosen = (is_power ? fit.power : fit.exponential).residual,
               other = (is_power ? fit.exponential : fit.power).residual;
  return chosen > 0 ? 2.0 * fit.points * std::log(other / chosen) : INFINITY;
}

/// Of an exponential with this slope; infinite when it does not decay.
double half_life_of(double slope) { return slope < 0.0 ? std::numbers::ln2 / -slope : INFINITY; }

}  // namespace

InfluenceFit fit_influence(std::span<const double> lags, std::span<const double> values, double first_lag) {
  InfluenceFit fit;
  fit.half_life = fit.half_life_low = fit.half_life_high = fit.halving_factor = not_a_number;
  if (lags.size() != values.size()) return fit;
  std::vector<double> lag, log_lag, log_value;
  for (std::size_t i = 0; i < lags.size(); ++i) {
    if (!(lags[i] > 0.0) || !(lags[i] >= first_lag) || !std::isfinite(lags[i])) continue;
    if (!(values[i] > 0.0) || !std::isnormal(values[i])) continue;
    lag.push_back(lags[i]);
    log_lag.push_back(std::log(lags[i]));
    log_value.push_back(std::log(values[i]));
  }
  fit.points = static_cast<int>(lag.size());
  if (lag.empty() || *std::ranges::min_element(log_lag) == *std::ranges::max_element(log_lag)) return fit;
  fit.power = fit_line(log_lag, log_value);
  fit.exponential = fit_line(lag, log_value);
  fit.law = better_law(fit);
  if (fit.law != InfluenceLaw::none) fit.preference = preference_of(fit);
  fit.half_life = half_life_of(fit.exponential.slope);
  fit.half_life_low = half_life_of(fit.exponential.slope_low);
  fit.half_life_high = half_life_of(fit.exponential.slope_high);
  fit.halving_factor = fit.power.slope < 0.0 ? std::exp2(-1.0 / fit.power.slope) : INFINITY;
  return fit;
}

double fitted_influence(const InfluenceFit& fit, InfluenceLaw law, double lag) {
  if (law == InfluenceLaw::power) return std::exp(fit.power.intercept + fit.power.slope * std::log(lag));
  if (law == InfluenceLaw::exponential) return std::exp(fit.exponential.intercept + fit.exponential.slope * lag);
  return not_a_number;
}

double student_t_975(int degrees) {
  if (degrees < 1) return not_a_number;
  if (degrees == 1) return 12.706204736432095;
  if (degrees == 2) return 4.302652729749464;
  // Cornish and Fisher's expansion about the normal quantile (Abramowitz and Stegun 26.7.5).
  constexpr double z = 1.959963984540054, z2 = z * z;
  const double n = degrees;
  const double first = z * (z2 + 1) / 4, second = z * ((5 * z2 + 16) * z2 + 3) / 96;
  const double third = z * (((3 * z2 + 19) * z2 + 17) * z2 - 15) / 384;
  const double fourth = z * ((((79 * z2 + 776) * z2 + 1482) * z2 - 1920) * z2 - 945) / 92160;
  return z + (first + (second + (third + fourth / n) / n) / n) / n;
}

}  // namespace afterglow
