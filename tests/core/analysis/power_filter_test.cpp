// The power filter: the paper's table, planted spectra, explicit losses, and bounds over many seeds.
#include "core/analysis/koopman/power_filter.h"

#include <gtest/gtest.h>

#include "core/analysis/koopman/mode_decomposition.h"
#include "tests/core/analysis/plain_matrix.h"

namespace afterglow {
namespace {

using Complex = std::complex<double>;

/// Statistics whose whitened operator is `A_w`: G~ = I, so M = A_w.
struct PlantedHead {
  PlainMatrix G, M, C;
  SkaHead head;
  PlantedHead(const PlainMatrix& A_w, const PlainMatrix& covariance, int power)
      : G(A_w.rows, A_w.rows), M(A_w), C(covariance) {
    head = {.rank = A_w.rows, .value_width = C.rows, .G = G.values, .M = M.values, .C = C.values, .ridge = 1.0};
    head.power = power;
  }
};

/// sum |v - B k|^2 + eps |B|_F^2, term by term.
double ridge_loss(const RandomHead& one, const PlainMatrix& B) {
  const PlainMatrix residual = one.values - one.keys * transposed(B);
  return std::pow(length_of(residual.values), 2) + one.head.ridge * std::pow(length_of(B.values), 2);
}

TEST(PowerGains, AreThoseOfThePapersTable) {
  const std::vector<Complex> modes = {{0.95, 0}, {0, 0.9}, {-0.7, 0}, {0, -0.5}, {0.3, 0}};
  const std::vector<double> squares = {0.902, 0.81, 0.49, 0.25, 0.09}, fourths = {0.815, 0.656, 0.24, 0.063, 0.008};
  const std::vector<double> second = power_gains(modes, 2), fourth = power_gains(modes, 4);
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_NEAR(second[i], squares[i], 5.1e-4);
    EXPECT_NEAR(fourth[i], fourths[i], 5.1e-4);
  }
}

TEST(PowerGains, AreTheFactorsByWhichTheOperatorScalesItsEigenvectors) {
  Random random(3);
  const RandomHead one(random, 80, 6, 0);
  const SkaOperators operators = ska_operators(one.head);
  const PlainMatrix cubed = power_of(PlainMatrix(6, 6, operators.A_w), 3);
  const auto gains = power_gains(decompose_modes(operators.A_w, 6, {}).eigenvalues, 3);
  const auto expected = decompose_modes(cubed.values, 6, {}).eigenvalues;
  ASSERT_EQ(gains.size(), 6u);
  for (std::size_t i = 0; i < 6; ++i) EXPECT_NEAR(gains[i], std::abs(expected[i]), 1e-9);
  EXPECT_EQ(power_gains(std::vector<Complex>{{0, 0}}, 0), std::vector<double>{1.0});
  EXPECT_TRUE(power_gains(std::vector<Complex>{{1, 0}}, -1).empty());
}

TEST(Contractivity, HoldsForEverySeedAndIsAttainedByARotation) {
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    Random random(seed);
    PlantedHead one(2.0 * random_matrix(random, 5, 5), PlainMatrix(0, 5), 2);
    one.head.gamma = 1.3;
    const auto result = contractivity(one.head, 8);
    ASSERT_TRUE(result);
    EXPECT_TRUE(result->contractive);
    const PlainMatrix A = (1.0 / std::max(plain_norm(one.M), 1.0)) * one.M;
    for (int K = 0; K <= 8; ++K) {
      EXPECT_NEAR(result->norms[K], plain_norm(power_of(A, K)), 1e-10);
      EXPECT_LE(result->norms[K], 1.0 + 1e-12);
      EXPECT_LE(result->restored[K], result->paper_bounds[K] * (1 + 1e-12));
      EXPECT_LE(result->restored[K], result->bounds[K] * (1 + 1e-12));
    }
  }
  Random random(7);
  const PlantedHead rotation(3.0 * random_orthogonal(random, 4), PlainMatrix(0, 4), 2);
  const auto kept = contractivity(rotation.head, 8);
  EXPECT_NEAR(kept->norms[8], 1.0, 1e-12);
  EXPECT_NEAR(kept->sigma, 3.0, 1e-12);
}

TEST(Contractivity, AnEstimateFromBelowBreaksThePapersBoundButNotOurs) {
  const std::vector<double> M = {2, 0, 0, 1}, G(4, 0.0);
  SkaHead head{.rank = 2, .value_width = 0, .G = G, .M = M, .C = {}, .ridge = 1.0};
  head.sigma = 1.8;
  const auto result = contractivity(head, 2);
  EXPECT_FALSE(result->contractive);
  EXPECT_GT(result->restored[2], result->paper_bounds[2]);
  EXPECT_NEAR(result->restored[2], result->bounds[2], 1e-14);
}

TEST(ExcessRisk, IsTheDifferenceOfTheRidgeLosses) {
  Random random(21);
  for (const int r : {1, 3, 8}) {
    RandomHead one(random, 50, r, 4);
    one.head.gamma = 1.2;
    one.head.eta = 1.5;
    const auto risk = excess_risk(one.head, 5);
    ASSERT_TRUE(risk);
    const SkaOperators operators = ska_operators(one.head);
    const PlainMatrix B = one.C * inverse_of(one.G + one.head.ridge * identity(r));
    const PlainMatrix L(r, r, operators.L), A(r, r, operators.A);
    const double least = ridge_loss(one, B);
    EXPECT_NEAR(risk->explained, std::pow(length_of(one.values.values), 2) - least, 1e-8);
    EXPECT_EQ(risk->excess[0], 0.0);
    for (int K = 0; K <= 5; ++K) {
      const PlainMatrix filtered = B * L * power_of(A, K) * inverse_of(L);
      EXPECT_NEAR(risk->excess[K], ridge_loss(one, filtered) - least, 1e-8 * (1 + least));
      EXPECT_NEAR(risk->with_gain[K], ridge_loss(one, 1.5 * filtered) - least, 1e-8 * (1 + least));
    }
  }
}

TEST(ExcessRisk, OfAnIdentityIsNothingAndOfZeroIsEverything) {
  const PlainMatrix C(1, 2, std::vector<double>{3, 4});
  const auto none = excess_risk(PlantedHead(identity(2), C, 2).head, 3);
  EXPECT_NEAR(none->excess[3], 0.0, 1e-15);
  const auto all = excess_risk(PlantedHead(PlainMatrix(2, 2), C, 2).head, 3);
  EXPECT_NEAR(all->excess[1], all->explained, 1e-12);
  EXPECT_NEAR(all->explained, 25.0, 1e-12);
}

TEST(PersistentRegime, IsThePapersForANormalOperator) {
  const double c = 0.3 * std::cos(1.0), s = 0.3 * std::sin(1.0);
  const PlainMatrix A(3, 3, std::vector<double>{0.97, 0, 0, 0, c, -s, 0, s, c});
  const PlantedHead one(A, PlainMatrix(1, 3, std::vector<double>{2, 0, 0}), 2);
  const auto regime = persistent_regime(one.head, std::vector<double>{1, 3, 4}, 0.1);
  ASSERT_TRUE(regime);
  EXPECT_EQ(regime->persistent, 1);
  EXPECT_EQ(regime->transient, 2);
  EXPECT_NEAR(regime->delta, 0.03, 1e-12);
  EXPECT_NEAR(regime->rho, 0.3, 1e-12);
  EXPECT_NEAR(regime->eigenvector_condition, 1.0, 1e-9);
  EXPECT_NEAR(regime->persistent_norm, 1.0, 1e-12);
  EXPECT_NEAR(regime->transient_norm, 5.0, 1e-12);
  EXPECT_NEAR(regime->bound, 2 * ((1.03 * 1.03 - 1) * 1 + 0.09 * 5), 1e-9);
  EXPECT_NEAR(regime->bound_without_filter, 10.0, 1e-12);
  EXPECT_NEAR(regime->error, 2 * (1 - 0.97 * 0.97), 1e-12);
  EXPECT_TRUE(regime->applies);
  EXPECT_TRUE(regime->helps_by_bound);
}

TEST(PersistentRegime, BoundsHoldForNonNormalOperatorsOfManySeeds) {
  int promised = 0, points = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    Random random(seed);
    RandomHead one(random, 30 + static_cast<int>(seed), 2 + static_cast<int>(seed % 6), 3, 0.95);
    one.head.power = 1 + static_cast<int>(seed % 4);
    one.head.gamma = 1.0 + 0.01 * static_cast<double>(seed % 30);
    const std::vector<double> query = random_matrix(random, 1, one.head.rank).values;
    for (const double distance : {0.0, 0.3, 0.8, 1.2, 3.0}) {
      const auto regime = persistent_regime(one.head, query, distance);
      ASSERT_TRUE(regime);
      ++points;
      EXPECT_LE(regime->error, regime->bound * (1 + 1e-8) + 1e-9);
      EXPECT_LE(regime->error_without_filter, regime->bound_without_filter * (1 + 1e-8) + 1e-9);
      EXPECT_EQ(regime->persistent + regime->transient, one.head.rank);
      promised += regime->helps_by_bound;
    }
  }
  EXPECT_GT(promised, points / 20) << "the sufficient condition is met now and then";
}

TEST(PersistentRegime, APersistentAnswerInTransientNoiseIsWhereTheFilterHelps) {
  Random random(8);
  const PlainMatrix A = with_spectrum(random, {1.0, 0.99, 0.4, 0.3, -0.2});
  const PlantedHead one(A, random_matrix(random, 3, 5), 4);
  const std::vector<double> query = {1, 1, -2, 1, 1};
  const auto modes = decompose_modes(A.values, 5, query);
  const auto regime = persistent_regime(one.head, query, widest_gap(modes.eigenvalues));
  ASSERT_TRUE(regime);
  EXPECT_EQ(regime->persistent, 2) << "the gap is between 0.99 and 0.4";
  EXPECT_TRUE(regime->helps_by_bound);
  EXPECT_TRUE(regime->helps);
  EXPECT_LT(regime->error, 0.2 * regime->error_without_filter);
  const auto all = persistent_regime(one.head, query, INFINITY);
  EXPECT_EQ(all->transient, 0);
  EXPECT_FALSE(all->helps) << "where all is wanted, ridge regression is best";
}

TEST(WidestGap, LeavesNoGrowingModeBehindAndKeepsPairsTogether) {
  EXPECT_NEAR(widest_gap(std::vector<Complex>{{0.9, 0}, {0.1, 0}}), 0.5, 1e-12);
  EXPECT_TRUE(std::isinf(widest_gap(std::vector<Complex>{{0.9, 0}, {-1.1, 0}}))) << "-1.1 would be transient";
  EXPECT_TRUE(std::isinf(widest_gap(std::vector<Complex>{{0.1, 0.5}, {0.1, -0.5}})));
  EXPECT_TRUE(std::isinf(widest_gap({})));
  EXPECT_TRUE(std::isinf(widest_gap(std::vector<Complex>{{NAN, 0}, {0, 0}})));
}

TEST(PowerFilter, AwkwardInputAnswersNothing) {
  const std::vector<double> one = {1.0}, nan = {NAN};
  EXPECT_FALSE(contractivity({}, 3));
  EXPECT_FALSE(excess_risk({}, 3));
  EXPECT_FALSE(persistent_regime({}, {}, 0.5));
  const PlantedHead small(identity(1), PlainMatrix(1, 1, one), 2);
  EXPECT_TRUE(persistent_regime(small.head, one, 0.5));
  EXPECT_FALSE(persistent_regime(small.head, nan, 0.5));
  EXPECT_FALSE(persistent_regime(small.head, {}, 0.5));
  EXPECT_FALSE(persistent_regime(small.head, one, NAN));
  EXPECT_FALSE(contractivity(small.head, -1));
  const PlantedHead jordan(PlainMatrix(2, 2, std::vector<double>{0.5, 1, 0, 0.5}), PlainMatrix(0, 2), 2);
  EXPECT_FALSE(persistent_regime(jordan.head, std::vector<double>{1, 1}, 0.1)) << "no full set of eigenvectors";
  EXPECT_TRUE(contractivity(jordan.head, 2));
}

}  // namespace
}  // namespace afterglow
