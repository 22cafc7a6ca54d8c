// Laws of a tail: planted ones are recovered, told apart, and bracketed.
#include "core/analysis/influence/influence_fit.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "core/random/random.h"

namespace afterglow {
namespace {

std::vector<double> lags_up_to(int n) {
  std::vector<double> lags;
  for (int l = 1; l <= n; ++l) lags.push_back(l);
  return lags;
}

template <class Law>
std::vector<double> values_of(const std::vector<double>& lags, const Law& law) {
  std::vector<double> values;
  for (const double lag : lags) values.push_back(law(lag));
  return values;
}

TEST(InfluenceFit, RecoversAPowerLaw) {
  const auto lags = lags_up_to(500);
  const InfluenceFit fit = fit_influence(lags, values_of(lags, [](double l) { return 3.0 / l; }), 10);
  EXPECT_EQ(fit.points, 491);
  EXPECT_NEAR(fit.power.slope, -1.0, 1e-10);
  EXPECT_NEAR(std::exp(fit.power.intercept), 3.0, 1e-9);
  EXPECT_EQ(fit.law, InfluenceLaw::power);
  EXPECT_NEAR(fit.halving_factor, 2.0, 1e-9);
  EXPECT_NEAR(fitted_influence(fit, InfluenceLaw::power, 60), 0.05, 1e-10);
}

TEST(InfluenceFit, RecoversAnExponentialAndItsHalfLife) {
  const auto lags = lags_up_to(300);
  const InfluenceFit fit = fit_influence(lags, values_of(lags, [](double l) { return 0.5 * std::pow(0.97, l); }));
  EXPECT_NEAR(std::exp(fit.exponential.slope), 0.97, 1e-10);
  EXPECT_EQ(fit.law, InfluenceLaw::exponential);
  EXPECT_NEAR(fit.half_life, std::log(2.0) / -std::log(0.97), 1e-7);
  EXPECT_NEAR(fitted_influence(fit, fit.law, fit.half_life), 0.25, 1e-9);
}

TEST(InfluenceFit, TellsNoisyLawsApartWithinAPercent) {
  const auto lags = lags_up_to(2000);
  Random random(3);
  const auto noisy = [&](double value) { return value * std::exp(0.1 * random.normal()); };
  const InfluenceFit power = fit_influence(lags, values_of(lags, [&](double l) { return noisy(1 / l); }));
  const InfluenceFit exponential =
      fit_influence(lags, values_of(lags, [&](double l) { return noisy(std::pow(0.97, l)); }));
  EXPECT_EQ(power.law, InfluenceLaw::power);
  EXPECT_NEAR(power.power.slope, -1.0, 0.01);
  EXPECT_NEAR(power.power.residual, 0.1, 0.01);
  EXPECT_EQ(exponential.law, InfluenceLaw::exponential);
  EXPECT_NEAR(exponential.exponential.slope, std::log(0.97), 0.01 * -std::log(0.97));
}

TEST(InfluenceFit, TheIntervalHoldsTheTruthNinetyFiveTimesInAHundred) {
  const auto lags = lags_up_to(12);
  int inside = 0;
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    Random random(seed);
    const auto values = values_of(lags, [&](double l) { return std::pow(l, -0.6) * std::exp(0.3 * random.normal()); });
    const LineFit line = fit_influence(lags, values).power;
    EXPECT_LT(line.slope_low, line.slope_high);
    inside += line.slope_low <= -0.6 && -0.6 <= line.slope_high;
  }
  EXPECT_NEAR(inside, 950, 25);
}

TEST(InfluenceFit, LeavesOutWhatIsNoPositiveNumber) {
  std::vector<double> lags = lags_up_to(40000);
  std::vector<double> values = values_of(lags, [](double l) { return std::pow(0.97, l); });
  EXPECT_EQ(values.back(), 0.0);
  values[10] = NAN;
  values[11] = -1;
  values[12] = INFINITY;
  lags[13] = NAN;
  lags[14] = -3;
  const InfluenceFit fit = fit_influence(lags, values);
  EXPECT_LT(fit.points, 24000);
  EXPECT_NEAR(std::exp(fit.exponential.slope), 0.97, 1e-9) << "subnormal values would bend the tail";
}

TEST(InfluenceFit, AwkwardInput) {
  EXPECT_EQ(fit_influence({}, {}).points, 0);
  EXPECT_EQ(fit_influence({}, {}).law, InfluenceLaw::none);
  EXPECT_EQ(fit_influence(std::vector<double>{1, 2}, std::vector<double>{1}).points, 0);
  const InfluenceFit single = fit_influence(std::vector<double>{4, 4}, std::vector<double>{1, 2});
  EXPECT_EQ(single.points, 2);
  EXPECT_TRUE(std::isnan(single.half_life)) << "one lag has no slope";
  const InfluenceFit pair = fit_influence(std::vector<double>{1, 2}, std::vector<double>{1, 0.5});
  EXPECT_NEAR(pair.power.slope, -1, 1e-12);
  EXPECT_TRUE(std::isinf(pair.power.slope_high));
  EXPECT_EQ(pair.law, InfluenceLaw::none) << "two points lie on any law";
  const InfluenceFit flat = fit_influence(lags_up_to(9), std::vector<double>(9, 1.0));
  EXPECT_EQ(flat.law, InfluenceLaw::none) << "a constant is both";
  EXPECT_TRUE(std::isinf(flat.half_life) && std::isinf(flat.halving_factor));
  const std::vector<double> far = {1e307, 1e308, 1.5e308}, tiny = {1e-300, 2e-300, 3e-300};
  EXPECT_EQ(fit_influence(far, tiny).law, InfluenceLaw::none) << "sums of lags overflow";
  EXPECT_TRUE(std::isnan(fitted_influence(flat, InfluenceLaw::none, 3)));
}

// ln 0.97 per token with noise: the interval of the half-life follows from the slope's and holds the truth.
TEST(InfluenceFit, SaysHowSureTheHalfLifeAndTheLawAre) {
  std::vector<double> lags, clean, noisy, blurred;
  for (int l = 1; l <= 60; ++l) {
    lags.push_back(l);
    clean.push_back(std::pow(0.97, l));
    noisy.push_back(clean.back() * std::exp(0.05 * std::sin(37.0 * l)));
    blurred.push_back(1 + 0.5 * std::sin(37.0 * l));
  }
  const double truth = std::log(0.5) / std::log(0.97);
  const InfluenceFit fit = fit_influence(lags, noisy), exact = fit_influence(lags, clean),
                     flat = fit_influence(lags, blurred);
  EXPECT_EQ(fit.law, InfluenceLaw::exponential);
  EXPECT_LT(fit.half_life_low, truth);
  EXPECT_GT(fit.half_life_high, truth);
  EXPECT_NEAR(fit.half_life_low, -std::log(2.0) / fit.exponential.slope_low, 1e-12);
  EXPECT_NEAR(fit.preference, 120 * std::log(fit.power.residual / fit.exponential.residual), 1e-9);
  EXPECT_GT(fit.preference, 10);
  EXPECT_GT(exact.preference, 1000) << "exact up to rounding";
  EXPECT_LT(flat.preference, 2) << "noise is no law";
  EXPECT_TRUE(std::isinf(flat.half_life_high)) << "it may not fade at all";
}

TEST(StudentT, HasTheTabulatedQuantiles) {
  EXPECT_NEAR(student_t_975(1), 12.7062, 1e-4);
  EXPECT_NEAR(student_t_975(2), 4.30265, 1e-5);
  EXPECT_NEAR(student_t_975(3), 3.18245, 5e-3);
  EXPECT_NEAR(student_t_975(5), 2.57058, 1e-3);
  EXPECT_NEAR(student_t_975(30), 2.04227, 1e-5);
  EXPECT_NEAR(student_t_975(100000), 1.95999, 1e-4);
  EXPECT_TRUE(std::isnan(student_t_975(0)));
}

}  // namespace
}  // namespace afterglow
