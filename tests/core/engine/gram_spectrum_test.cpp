// Ridge shrinkage against the regularised estimator itself, and the sizes of Gram matrices of bounded keys.
#include <gtest/gtest.h>

#include <cmath>

#include "core/analysis/linear_algebra/spectrum.h"
#include "core/analysis/linear_algebra/symmetric_eigen.h"
#include "core/engine/observation/mode_numbers.h"
#include "tests/core/analysis/plain_matrix.h"

namespace afterglow {
namespace {

TEST(RidgeShrinkage, IsWhatTheRidgeLeavesOfTheEstimatorAlongEachEigenvector) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    Random random(seed);
    const int r = 2 + static_cast<int>(seed % 5);
    const double ridge = seed % 2 ? 0.3 : 5.0;
    const RandomHead one(random, 30, r, 3);
    const SymmetricEigen pairs = symmetric_eigen(one.G.values, r);
    const std::vector<double> kept = ridge_shrinkage(pairs.values, ridge);
    const PlainMatrix plain = one.M * inverse_of(one.G), shrunk = one.M * inverse_of(one.G + ridge * identity(r));
    ASSERT_EQ(kept.size(), static_cast<std::size_t>(r));
    for (int j = 0; j < r; ++j) {
      const PlainMatrix v(r, 1, std::span(pairs.vectors).subspan(static_cast<std::size_t>(j) * r, r));
      const double size = length_of((plain * v).values), factor = kept[static_cast<std::size_t>(j)];
      EXPECT_NEAR(length_of((shrunk * v - factor * (plain * v)).values), 0, 1e-9 * size);
      EXPECT_GT(factor, 0);
      EXPECT_LT(factor, 1);
    }
  }
}

TEST(RidgeShrinkage, IsHalfWhereADirectionHasTheRidgeAndNothingWhereNoKeyLies) {
  const std::vector<double> gram{9, 1, 0, -1e-18};
  EXPECT_EQ(ridge_shrinkage(gram, 1), (std::vector<double>{0.9, 0.5, 0, 0}));
  EXPECT_EQ(ridge_shrinkage(std::vector<double>{4, 2}, 0), (std::vector<double>{1, 1})) << "without ridge all is kept";
  EXPECT_TRUE(ridge_shrinkage({}, 1).empty());
  EXPECT_TRUE(std::isnan(ridge_shrinkage(std::vector<double>{0}, 0).front()));
}

TEST(GramSize, IsThatOfTheMatrixAndAtMostTheNumberOfKeys) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    Random random(seed);
    const int r = 1 + static_cast<int>(seed % 6), tokens = 1 + static_cast<int>(seed);
    PlainMatrix Z = random_matrix(random, tokens, r);
    double longest = 0;
    for (int t = 0; t < tokens; ++t)
      longest = std::max(longest, length_of(std::span(Z.values).subspan(static_cast<std::size_t>(t) * r, r)));
    Z = (1 / longest) * Z;
    const PlainMatrix G = transposed(Z) * Z;
    const GramSize size = gram_size(symmetric_spectrum(G.values, r));
    double trace = 0;
    for (int i = 0; i < r; ++i) trace += G(i, i);
    EXPECT_NEAR(size.trace, trace, 1e-12 * tokens);
    EXPECT_NEAR(size.frobenius, length_of(G.values), 1e-12 * tokens);
    EXPECT_NEAR(size.largest, plain_norm(G), 1e-9 * tokens);
    EXPECT_LE(size.largest, size.frobenius * (1 + 1e-12));
    EXPECT_LE(size.frobenius, size.trace * (1 + 1e-12));
    EXPECT_LE(size.trace, tokens * (1 + 1e-12)) << "Echo, eq. 51";
  }
}

TEST(GramSize, EqualUnitKeysAttainAllThreeBounds) {
  const std::vector<double> seven_times_the_same{7 * 0.36, 7 * 0.48, 7 * 0.48, 7 * 0.64};
  const GramSize size = gram_size(symmetric_spectrum(seven_times_the_same, 2));
  EXPECT_NEAR(size.trace, 7, 1e-13);
  EXPECT_NEAR(size.frobenius, 7, 1e-13);
  EXPECT_NEAR(size.largest, 7, 1e-13);
  EXPECT_EQ(gram_size({}).trace, 0);
}

}  // namespace
}  // namespace afterglow
