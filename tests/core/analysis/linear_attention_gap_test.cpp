// Linear attention against ridge retrieval: by scanning factors, over many seeds, and where the bound is attained.
#include "core/analysis/attention/linear_attention_gap.h"

#include <gtest/gtest.h>

#include "tests/core/analysis/plain_matrix.h"

namespace afterglow {
namespace {

double gap_at(const PlainMatrix& G, const PlainMatrix& C, double ridge, const PlainMatrix& q, double a) {
  const PlainMatrix inverse = inverse_of(G + ridge * identity(G.rows));
  return length_of((C * q - a * (C * inverse * q)).values);
}

TEST(LinearAttentionGap, IsTheSmallestOverFactorsAndWithinTheBound) {
  double tightest = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    Random random(seed);
    const int r = 1 + static_cast<int>(seed % 7);
    const RandomHead one(random, 40, r, 5);
    const PlainMatrix queries = random_matrix(random, 6, r);
    const auto result = linear_attention_gap(one.G.values, one.C.values, 0.5, r, 5, queries.values);
    ASSERT_EQ(result.queries.size(), 6u);
    for (int i = 0; i < 6; ++i) {
      const auto& query = result.queries[static_cast<std::size_t>(i)];
      const PlainMatrix q(r, 1, std::span(queries.values).subspan(static_cast<std::size_t>(i) * r, r));
      EXPECT_NEAR(query.gap, gap_at(one.G, one.C, 0.5, q, query.best_factor), 1e-9);
      EXPECT_NEAR(query.shared_gap, gap_at(one.G, one.C, 0.5, q, result.shared_factor), 1e-9);
      for (double a = 1e-6; a < 3 * result.lambda_max; a *= 1.5)
        EXPECT_LE(query.gap, gap_at(one.G, one.C, 0.5, q, a) + 1e-9);
      EXPECT_LE(query.gap, query.shared_gap + 1e-12);
      EXPECT_LE(query.shared_gap, query.bound + 1e-10);
      if (r > 1) tightest = std::max(tightest, query.gap / query.bound);
    }
  }
  EXPECT_GT(tightest, 0.3) << "the bound is of the right size";
}

TEST(LinearAttentionGap, TheBoundIsAttainedBetweenTheExtremeEigenvectors) {
  const std::vector<double> G = {1, 0, 0, 9}, C = {1, 0, 0, 1}, q = {1 / std::sqrt(10.0), 3 / std::sqrt(10.0)};
  const auto result = linear_attention_gap(G, C, 0.0, 2, 2, q);
  EXPECT_NEAR(result.kappa, 9, 1e-12);
  EXPECT_NEAR(result.contraction, 0.8, 1e-12);
  EXPECT_NEAR(result.shared_factor, 1.8, 1e-12);
  EXPECT_NEAR(result.queries[0].gap, result.queries[0].bound, 1e-12);
  EXPECT_NEAR(result.queries[0].best_factor, result.shared_factor, 1e-12);
}

TEST(LinearAttentionGap, IsZeroForAnIsotropicGramAndAlsoForSomeOthers) {
  const std::vector<double> isotropic = {3, 0, 0, 3}, steep = {1, 0, 0, 1000}, C = {1, 2, 3, 4}, one_row = {0, 1};
  const std::vector<double> q = {0.3, -0.7};
  const auto equal = linear_attention_gap(isotropic, C, 0.5, 2, 2, q);
  EXPECT_NEAR(equal.shared_factor, 3.5, 1e-12);
  EXPECT_NEAR(equal.queries[0].shared_gap, 0, 1e-12);
  EXPECT_NEAR(equal.queries[0].bound, 0, 1e-12);
  const auto blind = linear_attention_gap(steep, one_row, 0.0, 2, 1, q);
  EXPECT_NEAR(blind.queries[0].gap, 0, 1e-12) << "so (kappa - 1)/(kappa + 1) is no bound from below";
  EXPECT_GT(blind.queries[0].bound, 0.7);
}

TEST(LinearAttentionGap, OppositeAnswersKeepNothingOfTheRidge) {
  const std::vector<double> G = {1, 0, 0, 100}, C = {1, -1}, q = {1, 2};
  const auto result = linear_attention_gap(G, C, 0.0, 2, 1, q);
  EXPECT_EQ(result.queries[0].best_factor, 0.0);
  EXPECT_NEAR(result.queries[0].gap, 1.0, 1e-12);
}

double ridge_loss(const PlainMatrix& B, const PlainMatrix& keys, const PlainMatrix& values, double ridge) {
  const PlainMatrix missed = values - keys * transposed(B);
  const double misses = length_of(missed.values), size = length_of(B.values);
  return misses * misses + ridge * size * size;
}

TEST(RidgeGradientStep, FromNothingWithHalfAStepIsLinearAttention) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    Random random(seed);
    const int r = 1 + static_cast<int>(seed % 5), P = 1 + static_cast<int>(seed % 3);
    const RandomHead one(random, 25, r, P);
    const std::vector<double> zero(static_cast<std::size_t>(P * r), 0.0);
    const std::vector<double> B_1 = ridge_gradient_step(zero, one.keys.values, one.values.values, r, 0.5, 0.5);
    const PlainMatrix queries = random_matrix(random, 6, r);
    EXPECT_LT(largest_difference(one.C.values, B_1, queries.values, r), 1e-12) << "Echo, proposition I.5";
    EXPECT_GT(largest_difference(one.C.values, zero, queries.values, r), 0);
  }
}

TEST(RidgeGradientStep, FollowsTheSlopeOfTheRidgeLossAndRestsAtItsMinimiser) {
  Random random(5);
  const RandomHead one(random, 25, 3, 2);
  const double ridge = 0.5, h = 1e-5;
  const PlainMatrix B = random_matrix(random, 2, 3);
  const std::vector<double> next = ridge_gradient_step(B.values, one.keys.values, one.values.values, 3, ridge, 1.0);
  for (std::size_t i = 0; i < B.values.size(); ++i) {
    PlainMatrix up = B, down = B;
    up.values[i] += h;
    down.values[i] -= h;
    const double slope =
        (ridge_loss(up, one.keys, one.values, ridge) - ridge_loss(down, one.keys, one.values, ridge)) / (2 * h);
    EXPECT_NEAR(B.values[i] - next[i], slope, 1e-6 * (1 + std::abs(slope)));
  }
  const PlainMatrix best = one.C * inverse_of(one.G + ridge * identity(3));
  const std::vector<double> rest = ridge_gradient_step(best.values, one.keys.values, one.values.values, 3, ridge, 0.5);
  for (std::size_t i = 0; i < rest.size(); ++i) EXPECT_NEAR(rest[i], best.values[i], 1e-10) << "proposition I.2";
}

TEST(RidgeGradientStep, AwkwardInput) {
  const std::vector<double> one{1}, two{1, 2}, three{1, 2, 3};
  EXPECT_TRUE(ridge_gradient_step({}, one, one, 1, 1, 1).empty());
  EXPECT_TRUE(ridge_gradient_step(one, one, one, 0, 1, 1).empty());
  EXPECT_TRUE(ridge_gradient_step(two, three, one, 2, 1, 1).empty());
  EXPECT_TRUE(ridge_gradient_step(one, two, one, 1, 1, 1).empty()) << "a key without its value";
  EXPECT_EQ(ridge_gradient_step(one, {}, {}, 1, 1, 0.5), std::vector<double>{0}) << "without pairs the ridge alone";
  EXPECT_TRUE(std::isnan(largest_difference(one, two, one, 1)));
  EXPECT_TRUE(std::isnan(largest_difference(one, one, {}, 1)));
}

TEST(LinearAttentionGap, AwkwardInput) {
  const std::vector<double> one = {1.0}, nan = {NAN}, minus = {-1.0}, huge = {1e300};
  EXPECT_TRUE(std::isnan(linear_attention_gap({}, {}, 1e-3, 0, 0, {}).kappa));
  EXPECT_TRUE(std::isnan(linear_attention_gap(nan, one, 1e-3, 1, 1, one).kappa));
  EXPECT_TRUE(std::isnan(linear_attention_gap(minus, one, 1e-3, 1, 1, one).kappa));
  EXPECT_TRUE(linear_attention_gap(one, one, 1e-3, 1, 1, nan).queries.empty());
  EXPECT_TRUE(linear_attention_gap(std::vector<double>{1, 0, 0, 1}, std::vector<double>{1, 1}, 1e-3, 2, 1, one)
                  .queries.empty());
  EXPECT_EQ(linear_attention_gap(one, one, 1e-3, 1, 1, {}).kappa, 1.0) << "no queries, yet the spectrum is known";
  EXPECT_NEAR(linear_attention_gap(huge, one, 0, 1, 1, one).queries[0].gap, 0.0, 1e-12);
}

}  // namespace
}  // namespace afterglow
