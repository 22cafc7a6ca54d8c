// Singular values against one-sided Jacobi rotations, and the operators of a head against explicit inverses.
#include <gtest/gtest.h>

#include "core/analysis/koopman/ska_head.h"
#include "core/analysis/linear_algebra/spectrum.h"
#include "tests/core/analysis/plain_matrix.h"

namespace afterglow {
namespace {

TEST(SingularValues, AgreeWithPlainRotationsAtAwkwardSizes) {
  Random random(1);
  for (const auto& [rows, columns] : {std::pair{1, 1}, {1, 37}, {37, 1}, {5, 63}, {65, 24}, {101, 37}}) {
    const PlainMatrix a = random_matrix(random, rows, columns);
    const std::vector<double> got = singular_values(a.values, rows, columns), expected = plain_singular_values(a);
    ASSERT_EQ(got.size(), expected.size());
    for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-11 * expected[0]);
  }
}

TEST(SpectralNorm, OfLargeMatricesIsTheFirstSingularValue) {
  Random random(3);
  for (const auto& [rows, columns] :
       {std::pair{33, 33}, {56, 64}, {64, 56}, {40, 301}, {97, 35}, {97, 101}, {130, 97}}) {
    const PlainMatrix a = random_matrix(random, rows, columns);
    const double expected = plain_singular_values(a).front();
    EXPECT_NEAR(spectral_norm(a.values, rows, columns), expected, 1e-12 * expected) << rows << " x " << columns;
  }
}

/// By all eigenvalues, and by products.
class SpectralNormOf : public testing::TestWithParam<int> {};

TEST_P(SpectralNormOf, MatricesWithAPattern) {
  const int n = GetParam();
  const std::vector<double> ones(static_cast<std::size_t>(n * n), 1.0), zeros(ones.size(), 0.0);
  EXPECT_NEAR(spectral_norm(ones, n, n), n, 1e-12 * n) << "rank one";
  EXPECT_EQ(spectral_norm(zeros, n, n), 0.0);
  std::vector<double> diagonal = zeros, alternating = ones;
  for (int i = 0; i < n; ++i) {
    diagonal[static_cast<std::size_t>(i * n + i)] = -3.0;
    for (int j = 0; j < n; ++j) alternating[static_cast<std::size_t>(i * n + j)] = (i + j) % 2 == 0 ? 2.0 : -2.0;
  }
  EXPECT_NEAR(spectral_norm(diagonal, n, n), 3.0, 1e-12) << "all are equal";
  EXPECT_NEAR(spectral_norm(alternating, n, n), 2.0 * n, 1e-12 * n) << "the sum of its entries is zero";
  diagonal.back() = 3.0 + 3e-9;
  EXPECT_NEAR(spectral_norm(diagonal, n, n), 3.0 + 3e-9, 1e-11) << "one stands out by a billionth";
  for (double& value : alternating) value *= 1e-200;
  EXPECT_NEAR(spectral_norm(alternating, n, n), 2e-200 * n, 1e-210) << "squares vanish";
  alternating[5] = INFINITY;
  EXPECT_TRUE(std::isnan(spectral_norm(alternating, n, n)));
  EXPECT_TRUE(std::isnan(spectral_norm(ones, n, n + 1))) << "too few numbers";
}

INSTANTIATE_TEST_SUITE_P(Sizes, SpectralNormOf, testing::Values(48, 112));

TEST(SingularValues, AwkwardInput) {
  EXPECT_TRUE(singular_values({}, 0, 0).empty());
  EXPECT_TRUE(singular_values(std::vector<double>{1, 2}, 2, 2).empty()) << "too few numbers";
  EXPECT_TRUE(singular_values(std::vector<double>{NAN}, 1, 1).empty());
  EXPECT_EQ(spectral_norm({}, 0, 3), 0.0);
  EXPECT_TRUE(std::isnan(spectral_norm(std::vector<double>{INFINITY}, 1, 1)));
  EXPECT_DOUBLE_EQ(spectral_norm(std::vector<double>{0, -1e300}, 1, 2), 1e300);
  EXPECT_EQ(singular_values(std::vector<double>(6, 0.0), 2, 3), std::vector<double>(2, 0.0))
      << "exactly, on any machine";
}

TEST(SingularValues, RankCountsWhatIsNotRounding) {
  EXPECT_EQ(numerical_rank(std::vector<double>{2, 1, 1e-14}), 2);
  EXPECT_EQ(numerical_rank(std::vector<double>{0, 0}), 0);
  EXPECT_EQ(numerical_rank({}), 0);
}

TEST(SkaHead, OperatorsAreTheExplicitProducts) {
  Random random(2);
  RandomHead one(random, 40, 7, 5);
  one.head.gamma = 1.25;
  const SkaOperators operators = ska_operators(one.head);
  const PlainMatrix gram = one.G + 1e-3 * identity(7), L = cholesky_of(gram), inverse = inverse_of(L);
  const PlainMatrix A_w = inverse * one.M * transposed(inverse), F = one.C * transposed(inverse);
  const PlainMatrix B = one.C * inverse_of(gram);
  ASSERT_EQ(operators.L.size(), 49u);
  for (std::size_t i = 0; i < 49; ++i) {
    EXPECT_NEAR(operators.L[i], L.values[i], 1e-13);
    EXPECT_NEAR(operators.A_w[i], A_w.values[i], 1e-11);
    EXPECT_NEAR(operators.A[i], 1.25 * A_w.values[i], 1e-11) << "sigma is below 1, so that gamma alone acts";
  }
  for (std::size_t i = 0; i < 35; ++i) {
    EXPECT_NEAR(operators.readout[i], F.values[i], 1e-10);
    EXPECT_NEAR(operators.value_map[i], B.values[i], 1e-9);
  }
  EXPECT_NEAR(operators.sigma, plain_norm(A_w), 1e-11);
  EXPECT_LT(operators.sigma, 1.0) << "statistics of the same keys are a contraction";
}

TEST(SkaHead, NormalisesByTheLayersEstimateWhenThereIsOne) {
  SkaHead head;
  const std::vector<double> G = {1.0}, M = {6.0};
  head.rank = 1;
  head.ridge = 1.0;
  head.G = G;
  head.M = M;
  EXPECT_DOUBLE_EQ(ska_operators(head).A[0], 1.0) << "A_w = 6/2 and its norm is 3";
  head.sigma = 2.0;
  EXPECT_DOUBLE_EQ(ska_operators(head).A[0], 1.5);
}

TEST(SkaHead, UnsoundStatisticsGiveNothing) {
  EXPECT_TRUE(ska_operators({}).empty());
  SkaHead head;
  const std::vector<double> indefinite = {1, 2, 2, 1}, zero(4, 0.0), nan = {NAN, 0, 0, 1}, huge(4, 1e308);
  head.rank = 2;
  head.M = zero;
  for (const auto* G : {&indefinite, &nan}) {
    head.G = *G;
    EXPECT_TRUE(ska_operators(head).empty());
  }
  head.G = zero;
  EXPECT_FALSE(ska_operators(head).empty()) << "the ridge alone is enough";
  head.M = huge;
  EXPECT_TRUE(ska_operators(head).empty());
  head.M = zero;
  head.value_width = 3;
  EXPECT_TRUE(ska_operators(head).empty()) << "C is missing";
}

}  // namespace
}  // namespace afterglow
