// Perturbation of the operator and its eigenvalues: against explicit inverses, over many seeds, and where the bounds
// are attained.
#include "core/analysis/koopman/perturbation.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/core/analysis/plain_matrix.h"

namespace afterglow {
namespace {

constexpr double rounding = 1.0 + 1e-8;

std::optional<Perturbation> measure_perturbation(const SkaHead& head, const std::vector<double>& dG,
                                                 const std::vector<double>& dM) {
  const StatisticsNoise noise{dG, dM};
  return measure_perturbations(head, {&noise, 1}).front();
}

void expect_bounds_hold(const Perturbation& p) {
  EXPECT_LE(p.operator_change, p.sharp_operator_bound * rounding);
  EXPECT_LE(p.sharp_operator_bound, p.operator_bound * rounding);
  EXPECT_LE(p.eigenvalue_change, p.bauer_fike * rounding + 1e-12);
  EXPECT_LE(p.eigenvalue_change, p.pencil_bound * rounding + 1e-12);
  EXPECT_LE(p.eigenvalue_change, p.combined_bound * rounding + 1e-12);
}

TEST(Perturbation, MeasuresWhatExplicitInversesGive) {
  Random random(11);
  for (const int r : {1, 2, 5, 12}) {
    const RandomHead one(random, 60, r, 0);
    const PlainMatrix dG = 1e-3 * random_symmetric(random, r), dM = 1e-3 * random_matrix(random, r, r);
    const auto measured = measure_perturbation(one.head, dG.values, dM.values);
    ASSERT_TRUE(measured);
    const PlainMatrix gram = one.G + 1e-3 * identity(r), noisy = gram + dG;
    const PlainMatrix A = one.M * inverse_of(gram), A_noisy = (one.M + dM) * inverse_of(noisy);
    EXPECT_NEAR(measured->operator_change, plain_norm(A_noisy - A), 1e-9 * plain_norm(A_noisy - A));
    const double expected =
        plain_norm(dM) * plain_norm(inverse_of(noisy)) + plain_norm(A) * plain_norm(inverse_of(gram)) * plain_norm(dG) *
                                                             plain_norm(inverse_of(noisy)) * plain_norm(gram);
    EXPECT_NEAR(measured->operator_bound, expected, 1e-8 * expected) << "theorem C.1, factor by factor";
    double trace = 0, sum = 0;
    for (int i = 0; i < r; ++i) trace += A_noisy(i, i);
    for (const auto& value : measured->eigenvalues) sum += value.real();
    EXPECT_NEAR(sum, trace, 1e-8);
  }
}

TEST(Perturbation, BoundsHoldForEveryNoiseOfManySeeds) {
  int loose = 0, points = 0, beyond = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    Random random(seed);
    const RandomHead one(random, 20 + 3 * static_cast<int>(seed), 2 + static_cast<int>(seed % 7), 0);
    for (const NoisePoint& point : noise_sweep(one.head, std::vector<double>{1e-8, 1e-4, 1e-2, 0.3, 2.0}, 3, seed)) {
      expect_bounds_hold(point.measured);
      ++points;
      if (point.measured.sharp_operator_bound > 20 * point.measured.operator_change) ++loose;
      if (!point.measured.positive_definite) ++beyond;
    }
  }
  EXPECT_EQ(points, 600);
  EXPECT_LT(loose, points / 10) << "the sharp bound says something";
  EXPECT_GT(beyond, 0) << "noise larger than the smallest eigenvalue of the Gram matrix is among them";
}

TEST(Perturbation, NoiseOfMAloneAlongTheWeakestKeyAttainsTheBound) {
  // E_G = 0 and E_M = c u v^T with v the weakest direction of G~: |A^ - A| = c / lambda_min exactly.
  const std::vector<double> G = {4, 0, 0, 0.25}, M = {2, 0, 0, 0.1}, dG(4, 0.0), dM = {0, 0, 0, 0.01};
  SkaHead head;
  head.rank = 2;
  head.ridge = 0.0;
  head.G = G;
  head.M = M;
  const auto measured = measure_perturbation(head, dG, dM);
  ASSERT_TRUE(measured);
  EXPECT_NEAR(measured->operator_change, 0.04, 1e-15);
  EXPECT_NEAR(measured->operator_bound, 0.04, 1e-15);
  EXPECT_NEAR(measured->eigenvector_condition, 1.0, 1e-12);
  EXPECT_NEAR(measured->eigenvalue_change, 0.04, 1e-12) << "and so does the eigenvalue";
  EXPECT_NEAR(measured->bauer_fike, 0.04, 1e-12);
  EXPECT_NEAR(measured->combined_bound, 0.04, 1e-12);
  EXPECT_NEAR(measured->pencil_bound, 0.04, 1e-12);
}

TEST(Perturbation, TheProofOfC1LosesTheConditionNumber) {
  // Noise of G alone, all in the weakest direction: the sharp bound is attained, the printed one is kappa(G~) larger.
  const std::vector<double> G = {100, 0, 0, 0.01}, M = {50, 0, 0, 0.009}, dG = {0, 0, 0, 1e-4}, dM(4, 0.0);
  SkaHead head;
  head.rank = 2;
  head.ridge = 0.0;
  head.G = G;
  head.M = M;
  const auto measured = measure_perturbation(head, dG, dM);
  ASSERT_TRUE(measured);
  EXPECT_NEAR(measured->operator_change, measured->sharp_operator_bound, 1e-12);
  EXPECT_NEAR(measured->operator_bound / measured->sharp_operator_bound, 1e4, 1e-6);
  EXPECT_NEAR(measured->eigenvalue_change / measured->pencil_bound, 0.99 / 1.01, 0.02) << "about 1 by the pencil";
}

TEST(Perturbation, NonNormalEigenvaluesMoveFurtherThanTheOperator) {
  // A Jordan-like block: the eigenvalues move by the root of the noise, and kappa(V) knows it.
  const std::vector<double> G = {1, 0, 0, 1}, M = {0.5, 1, 0, 0.501}, dG(4, 0.0), dM = {0, 0, 1e-4, 0};
  SkaHead head;
  head.rank = 2;
  head.ridge = 0.0;
  head.G = G;
  head.M = M;
  const auto measured = measure_perturbation(head, dG, dM);
  ASSERT_TRUE(measured);
  EXPECT_NEAR(measured->operator_change, 1e-4, 1e-12);
  EXPECT_GT(measured->eigenvalue_change, 50 * measured->operator_change);
  EXPECT_GT(measured->eigenvector_condition, 1000);
  expect_bounds_hold(*measured);
  const std::vector<double> defective = {0.5, 1, 0, 0.5};
  head.M = defective;
  const auto jordan = measure_perturbation(head, dG, dM);
  ASSERT_TRUE(jordan);
  EXPECT_GT(jordan->eigenvector_condition, 1e14);
  EXPECT_NEAR(jordan->eigenvalue_change, 0.01, 1e-8);
}

TEST(NoiseSweep, HasTheSizesItSaysAndIsTheSameEveryTime) {
  Random random(5);
  const RandomHead one(random, 50, 6, 0);
  const std::vector<double> sizes = {1e-6, 1e-3};
  const auto points = noise_sweep(one.head, sizes, 4, 99), again = noise_sweep(one.head, sizes, 4, 99);
  ASSERT_EQ(points.size(), 8u);
  std::set<double> changes;
  for (std::size_t i = 0; i < points.size(); ++i) {
    EXPECT_EQ(points[i].measured.operator_change, again[i].measured.operator_change);
    EXPECT_NEAR(points[i].measured.noise_G / plain_norm(one.G), points[i].size, 1e-9 * points[i].size);
    EXPECT_NEAR(points[i].measured.noise_M / plain_norm(one.M), points[i].size, 1e-9 * points[i].size);
    changes.insert(points[i].measured.operator_change);
  }
  EXPECT_EQ(changes.size(), 8u) << "draws differ";
  EXPECT_NEAR(points[4].measured.operator_change / points[0].measured.operator_change, 1e3, 100)
      << "a draw keeps its direction over the sizes";
  EXPECT_NE(noise_sweep(one.head, sizes, 1, 98)[0].measured.operator_change, points[0].measured.operator_change);
}

TEST(Perturbation, AwkwardInputAnswersNothing) {
  const std::vector<double> one = {1.0}, half = {0.5}, minus = {-1.001}, nan = {NAN}, huge = {1e308};
  EXPECT_FALSE(measure_perturbation({}, {}, {}));
  EXPECT_TRUE(noise_sweep({}, one, 3, 1).empty());
  SkaHead head;
  head.rank = 1;
  head.G = one;
  head.M = half;
  EXPECT_TRUE(measure_perturbation(head, one, one));
  EXPECT_FALSE(measure_perturbation(head, {}, one)) << "a size is wrong";
  EXPECT_FALSE(measure_perturbation(head, nan, one));
  EXPECT_FALSE(measure_perturbation(head, minus, one)) << "G~ + E_G is singular";
  EXPECT_TRUE(measure_perturbation(head, huge, one));
  EXPECT_TRUE(noise_sweep(head, {}, 3, 1).empty());
  EXPECT_TRUE(noise_sweep(head, one, 0, 1).empty());
  EXPECT_TRUE(noise_sweep(head, nan, 2, 1).empty());
}

}  // namespace
}  // namespace afterglow
