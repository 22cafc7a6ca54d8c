// Influence profiles against closed forms: uniform routing, hops, deep exponents, norms of sketched matrices.
#include "core/analysis/influence/influence.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "core/analysis/influence/influence_fit.h"
#include "core/analysis/linear_algebra/spectrum.h"
#include "core/random/random.h"

namespace afterglow {
namespace {

std::vector<double> uniform_feedback(double gamma, int T) {
  std::vector<double> B(static_cast<std::size_t>(T * T), 0.0);
  for (int t = 1; t < T; ++t) {
    for (int j = 0; j < t; ++j) B[static_cast<std::size_t>(t * T + j)] = gamma / t;
  }
  return B;
}

std::vector<double> random_feedback(int T, std::uint64_t seed) {
  Random random(seed);
  std::vector<double> B(static_cast<std::size_t>(T * T), 0.0);
  for (int t = 1; t < T; ++t) {
    for (int j = 0; j < t; ++j) B[static_cast<std::size_t>(t * T + j)] = (2 * random.uniform() - 1) / t;
  }
  return B;
}

TEST(Influence, SpreadLagsAscendToTheLastOne) {
  for (const int last : {1, 2, 37, 2047}) {
    const std::vector<int> lags = spread_lags(last, 12);
    EXPECT_EQ(lags.front(), 1);
    EXPECT_EQ(lags.back(), last);
    for (std::size_t i = 1; i < lags.size(); ++i) EXPECT_GT(lags[i], lags[i - 1]);
  }
  EXPECT_TRUE(spread_lags(0, 12).empty());
  EXPECT_LT(spread_lags(2047, 12).size(), 42u);
}

TEST(Influence, ThePlaceOfAShareLiesOnTheLaw) {
  InfluenceProfile power, exponential, flat;
  for (int l = 0; l <= 4000; ++l) {
    for (InfluenceProfile* p : {&power, &exponential, &flat}) p->lags.push_back(l);
    power.values.push_back(l == 0 ? 9 : 1.0 / l);
    exponential.values.push_back(std::pow(0.9, l));
    flat.values.push_back(1);
  }
  EXPECT_NEAR(lag_of_share(power, 0.01), 100, 1e-9);
  EXPECT_NEAR(lag_of_share(exponential, 0.01), 1 + std::log(0.01) / std::log(0.9), 0.01);
  EXPECT_TRUE(std::isinf(lag_of_share(flat, 0.01)));
  EXPECT_TRUE(std::isnan(lag_of_share({}, 0.01)));
}

TEST(Influence, SolveOfUniformRoutingIsTheClosedForm) {
  constexpr int T = 300;
  for (const double gamma : {-0.4, 0.3, 0.9}) {
    const std::vector<double> R = resolvent(uniform_feedback(gamma, T), T);
    const std::vector<double> code = position_code(uniform_feedback(gamma, T), T);
    for (const int tau : {0, 1, 17}) {
      for (int t = tau; t < T; ++t) {
        const double value = R[static_cast<std::size_t>(t * T + tau)];
        EXPECT_NEAR(uniform_routing_influence(gamma, tau, t - tau), value, 1e-11 * std::abs(value))
            << gamma << " " << t;
      }
    }
    for (int t = 0; t < T; ++t) EXPECT_NEAR(uniform_position_code(gamma, t), code[static_cast<std::size_t>(t)], 1e-11);
  }
}

TEST(Influence, TheResolventInvertsAndItsHopsAddUp) {
  constexpr int T = 23;
  const std::vector<double> B = random_feedback(T, 5), R = resolvent(B, T);
  for (int t = 0; t < T; ++t) {
    for (int tau = 0; tau < T; ++tau) {
      double sum = R[static_cast<std::size_t>(t * T + tau)];
      for (int j = 0; j < t; ++j)
        sum -= B[static_cast<std::size_t>(t * T + j)] * R[static_cast<std::size_t>(j * T + tau)];
      EXPECT_NEAR(sum, t == tau ? 1.0 : 0.0, 1e-13);
    }
  }
  const std::vector<double> hops = hop_profiles(B, T, 4, T - 1);
  for (int t = 0; t < T; ++t) {
    double sum = 0;
    for (int k = 0; k < T; ++k) sum += hops[static_cast<std::size_t>(k * T + t)];
    EXPECT_NEAR(sum, R[static_cast<std::size_t>(t * T + 4)], 1e-13);
  }
  const std::vector<double> masses = hop_masses(B, T, T - 1, T - 1);
  EXPECT_NEAR(std::accumulate(masses.begin(), masses.end(), 0.0), std::accumulate(R.end() - T, R.end(), 0.0), 1e-12);
  EXPECT_NEAR(position_code(B, T).back(), std::accumulate(R.end() - T, R.end(), 0.0), 1e-12);
  EXPECT_EQ(masses[0], 1);
}

TEST(Influence, SpreadSaysHowDiffuseARoutingIs) {
  constexpr int T = 6;
  const std::vector<double> uniform = uniform_feedback(1, T);
  const RoutingSpread diffuse = routing_spread(uniform, T, true);
  EXPECT_NEAR(diffuse.c2, 1, 1e-12);
  EXPECT_NEAR(diffuse.effective[5], 5, 1e-12);
  EXPECT_NEAR(diffuse.logit_spread[5], 0, 1e-12);
  const std::vector<double> sharp = {1, 0, 0.8, 0.2};
  const RoutingSpread full = routing_spread(sharp, 2, false);
  EXPECT_NEAR(full.logit_spread[1], std::log(4.0), 1e-12);
  EXPECT_NEAR(full.c2, 1.6, 1e-12);
  EXPECT_NEAR(envelope_exponent(0.5, full.c2), 0.2, 1e-12);
}

TEST(Influence, TailOfUniformRoutingFallsWithOneMinusGamma) {
  for (const double gamma : {0.25, 0.5, 0.8}) {
    InfluenceProfile profile;
    for (const int lag : spread_lags(100000, 10)) {
      profile.lags.push_back(lag);
      profile.values.push_back(uniform_routing_influence(gamma, 0, lag));
    }
    const InfluenceFit fit = fit_influence(profile.lags, profile.values, 100);
    EXPECT_NEAR(fit.power.slope, -(1 - gamma), 0.01 * (1 - gamma));
    EXPECT_EQ(fit.law, InfluenceLaw::power);
  }
}

// Decaying, frozen and increasing: theorem 12 with beta = 1/2 and 1, 2, 3 blocks. A larger beta comes to its law more
// slowly: what is left over falls as lag^-(1 - beta).
TEST(Influence, StackedBlocksHaveTheExponentsOfTheTheorem) {
  for (const double beta : {0.3, 0.5}) {
    for (const int blocks : {1, 2, 3}) {
      const InfluenceProfile all = uniform_stack_profile(blocks, 1 - beta, 0, 1 << 20);
      const InfluenceProfile profile = spread_profile(all, 10);
      const InfluenceFit fit = fit_influence(profile.lags, profile.values, 1e4);
      EXPECT_NEAR(fit.power.slope, deep_exponent(blocks, beta), 0.01) << blocks << " blocks, beta " << beta;
    }
  }
  EXPECT_EQ(deep_exponent(2, 0.5), 0);
}

TEST(Influence, CompleteRowsGiveTheNormItself) {
  constexpr int n = 7;
  Random random(9);
  std::vector<double> J(n * n);
  for (double& v : J) v = random.normal();
  const NormEstimate norm = spectral_norm_from_rows(J, n, n, true);
  EXPECT_NEAR(norm.value, spectral_norm(J, n, n), 1e-12);
  EXPECT_EQ(norm.low, norm.high);
}

// high^4 is unbiased; of rank 1 both bounds are the norm, of a flat spectrum they are n^(1/4) apart.
TEST(Influence, SketchedNormsBracketTheNorm) {
  constexpr int n = 32, m = 8, sketches = 1000;
  Random random(11);
  std::vector<double> a(n), b(n);
  for (double& v : a) v = random.normal();
  for (double& v : b) v = random.normal();
  const auto length = [](const std::vector<double>& v) {
    return std::sqrt(std::inner_product(v.begin(), v.end(), v.begin(), 0.0));
  };
  const double norm = length(a) * length(b);
  double fourth_power = 0, squared_log_error = 0, low = 0, high = 0;
  for (int sketch = 0; sketch < sketches; ++sketch) {
    std::vector<double> one, flat;
    for (int i = 0; i < m; ++i) {
      double along = 0;
      for (int c = 0; c < n; ++c) {
        const double u = random.normal();
        along += u * a[static_cast<std::size_t>(c)];
        flat.push_back(u);  // J = identity: U J = U
      }
      for (const double v : b) one.push_back(along * v);
    }
    const NormEstimate rank_one = spectral_norm_from_rows(one, m, n, false);
    EXPECT_LE(rank_one.low, rank_one.high * (1 + 1e-9));
    fourth_power += std::pow(rank_one.high / norm, 4) / sketches;
    squared_log_error += std::pow(std::log(rank_one.value / norm), 2) / sketches;
    const NormEstimate identity = spectral_norm_from_rows(flat, m, n, false);
    low += identity.low / sketches;
    high += identity.high / sketches;
  }
  EXPECT_NEAR(fourth_power, 1, 0.1);
  EXPECT_LT(std::sqrt(squared_log_error), 1.4 / std::sqrt(2.0 * m)) << "the error that the header names";
  EXPECT_NEAR(low, 1, 0.05);
  EXPECT_NEAR(high, std::pow(n, 0.25), 0.05 * std::pow(n, 0.25));
}

// The bounds with their allowance hold 95 of 100 norms, of rank 1, of a flat spectrum and of one in between.
TEST(Influence, SketchedBoundsHoldTheNormWithTheirAllowance) {
  constexpr int n = 16, sketches = 2000;
  Random random(13);
  for (const int m : {4, 8, 24}) {
    for (const double fall : {0.0, 0.5, 1.0}) {  // singular values 1, fall, fall^2, ..
      int held = 0;
      for (int sketch = 0; sketch < sketches; ++sketch) {
        std::vector<double> rows;
        for (int i = 0; i < m; ++i) {
          for (int c = 0; c < n; ++c) rows.push_back(random.normal() * std::pow(fall, c));
        }
        const NormEstimate norm = spectral_norm_from_rows(rows, m, n, false);
        const SamplingAllowance allowance = sampling_allowance(norm.rows);
        held += norm.low / allowance.low <= 1 && 1 <= norm.high * allowance.high;
      }
      EXPECT_GE(held, 0.94 * sketches) << m << " rows, fall " << fall;
    }
    EXPECT_GT(sampling_allowance(m).high, sampling_allowance(4 * m).high);
  }
  EXPECT_EQ(sampling_allowance(0).high, 1) << "exact norms need none";
  EXPECT_NEAR(sampling_allowance(100000).low, 1, 0.01);
}

TEST(Influence, BadSizesGiveNothing) {
  EXPECT_TRUE(resolvent(std::vector<double>(5), 2).empty());
  EXPECT_TRUE(hop_profiles(std::vector<double>(4), 2, 2, 3).empty());
  EXPECT_TRUE(hop_masses(std::vector<double>(4), 2, -1, 3).empty());
  EXPECT_TRUE(position_code({}, 0).empty());
  EXPECT_TRUE(routing_spread({}, 3, false).effective.empty());
  EXPECT_TRUE(uniform_stack_profile(2, 0.5, 4, 4).lags.empty());
  EXPECT_EQ(spectral_norm_from_rows(std::vector<double>(5), 2, 3, false).value, 0);
}

/// Lemma K.22's macro-layer as matrices: x + (I - B)^-1 A diag(p) x, A the uniform average over the prefix.
TEST(Influence, TheStackOfLemmaK22IsThatOfItsMatrices) {
  constexpr int T = 40, source = 3;
  constexpr double gamma = 0.6;
  std::vector<double> B(T * T, 0.0), x(T, 0.0);
  for (int t = 1; t < T; ++t) {
    for (int j = 0; j < t; ++j) B[static_cast<std::size_t>(t * T + j)] = gamma / t;
  }
  const std::vector<double> R = resolvent(B, T);
  x[source] = 1;
  for (int block = 1; block <= 3; ++block) {
    std::vector<double> f(T, 0.0), next = x;
    for (int t = 0; t < T; ++t) {
      for (int j = 0; j <= t; ++j)
        f[static_cast<std::size_t>(t)] += std::pow(j + 1.0, gamma) * x[static_cast<std::size_t>(j)] / (t + 1);
    }
    for (int t = 0; t < T; ++t) {
      for (int j = 0; j <= t; ++j)
        next[static_cast<std::size_t>(t)] += R[static_cast<std::size_t>(t * T + j)] * f[static_cast<std::size_t>(j)];
    }
    x = next;
    const InfluenceProfile profile = averaged_stack_profile(block, gamma, source, T);
    ASSERT_EQ(profile.values.size(), static_cast<std::size_t>(T - source));
    for (int lag = 0; lag < T - source; ++lag)
      EXPECT_NEAR(profile.values[static_cast<std::size_t>(lag)], x[static_cast<std::size_t>(source + lag)], 1e-9)
          << block;
  }
}

TEST(Influence, TheStackOfLemmaK22HasTheExponentOfTheoremTwelve) {
  for (const int blocks : {1, 2, 3}) {
    constexpr double gamma = 0.5;
    const InfluenceProfile far = spread_profile(averaged_stack_profile(blocks, gamma, 0, 400'000), 12);
    const InfluenceFit fit = fit_influence(far.lags, far.values, 1e5);
    EXPECT_NEAR(fit.power.slope, deep_exponent(blocks, 1 - gamma), 0.06) << blocks;
  }
}

TEST(Influence, TheEnvelopesConstantHoldsForUniformRoutingOfAnySource) {
  for (const double mass : {0.05, 0.5, 0.95}) {
    for (const double tau : {0.0, 1.0, 30.0}) {
      for (const double lag : {1.0, 2.0, 10.0, 1000.0})
        EXPECT_LE(uniform_routing_influence(mass, tau, lag), envelope_constant(1 - mass) * std::pow(lag, mass - 1));
    }
  }
}

TEST(PathSum, IsTheProductOfToeplitzMatrices) {
  const std::vector<std::vector<double>> kernels{
      {1.2, 0.3, 0.2, 0.1, 0.05}, {1, 0.5, 0.25, 0.125, 0.0625}, {2, 0, 1, 0, 0.5}};
  std::vector<double> column{1, 0, 0, 0, 0};
  for (const std::vector<double>& kernel : kernels) {
    std::vector<double> next(5, 0.0);
    for (std::size_t t = 0; t < 5; ++t) {
      for (std::size_t tau = 0; tau <= t; ++tau) next[t] += kernel[t - tau] * column[tau];
    }
    column = next;
  }
  const std::vector<double> sum = path_sum(kernels);
  ASSERT_EQ(sum.size(), 5u);
  for (std::size_t lag = 0; lag < 5; ++lag) EXPECT_NEAR(sum[lag], column[lag], 1e-14) << lag;
  EXPECT_TRUE(path_sum({}).empty());
}

TEST(PathSum, ProfilesAreFilledInAlongPowers) {
  const std::vector<double> filled = at_every_lag({{1, 4, 16}, {8, 4, 2}}, 3, 20);  // 8 lag^-1/2
  ASSERT_EQ(filled.size(), 21u);
  EXPECT_EQ(filled[0], 3);
  for (int lag = 1; lag <= 16; ++lag) EXPECT_NEAR(filled[lag], 8 / std::sqrt(lag), 1e-13) << lag;
  EXPECT_EQ(filled[20], 2);
  EXPECT_EQ(at_every_lag({{1, 3}, {1, 0}}, 0, 2)[2], 1 - std::log(2.0) / std::log(3.0))
      << "straight where it ends at 0";
}

}  // namespace
}  // namespace afterglow
