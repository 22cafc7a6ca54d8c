// Which law an influence follows over the lag: a power law (a straight line on log-log axes) or an exponential (one on
// semi-log axes).
#pragma once
#include <span>

namespace afterglow {

enum class InfluenceLaw { none, power, exponential };

/// A least-squares line through log(value) against log(lag) (power) or lag (exponential).
struct LineFit {
  double slope = 0.0, intercept = 0.0;
  /// 95 % interval of the slope by Student's t with n - 2 degrees of freedom, for independent residuals; a smooth
  /// curve's residuals are not, so a bent tail gives too narrow an interval. Infinite for n = 2.
  double slope_low = 0.0, slope_high = 0.0;
  double residual = 0.0;  ///< root mean square of log(value) around the line
};

struct InfluenceFit {
  int points = 0;                         ///< used: lag >= first_lag, value a positive normal number
  LineFit power;                          ///< value = exp(intercept) lag^slope
  LineFit exponential;                    ///< value = exp(intercept + slope lag)
  InfluenceLaw law = InfluenceLaw::none;  ///< the fit with the smaller residual; none below 3 points or for a tie
  /// By how much Akaike's criterion prefers that law to the other: 2 points ln(ratio of the residuals), as both have
  /// two parameters. Below about 2 the tail does not tell them apart; infinite when the law is exact; 0 without a law.
  double preference = 0.0;
  /// The lag after which the exponential is half as large: ln 2 / -slope; infinite when it does not decay. A power law
  /// has none: it halves whenever the lag grows by `halving_factor` = 2^(-1/slope).
  double half_life = 0.0, halving_factor = 0.0;
  /// 95 % interval of the half-life, from that of the slope; the upper end is infinite when the slope may be 0.
  double half_life_low = 0.0, half_life_high = 0.0;
};

/// Fits the tail from `first_lag` on; lags must be positive, in any order. Zeros, negative values, NaN, infinities and
/// subnormal values are left out: a value that has underflowed says nothing of the law. Fewer than two different lags
/// give points and nothing else; unequal sizes give none.
InfluenceFit fit_influence(std::span<const double> lags, std::span<const double> values, double first_lag = 1.0);

/// The value that the fit of this law has at a lag, for an overlay; NaN for none.
double fitted_influence(const InfluenceFit& fit, InfluenceLaw law, double lag);

/// The 97.5 % quantile of Student's t, relative error below 2e-3; NaN for degrees < 1.
double student_t_975(int degrees);

}  // namespace afterglow
