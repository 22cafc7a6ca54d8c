// Largest eigenpairs of Toeplitz matrices: the definition A v = lambda v, a general solver, and closed forms.
#include "core/analysis/linear_algebra/toeplitz_eigen.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <numbers>
#include <vector>

#include "core/analysis/linear_algebra/symmetric_eigen.h"

namespace afterglow {
namespace {

std::vector<double> column_of(int n, const std::function<double(int lag)>& kernel) {
  std::vector<double> column;
  for (int lag = 0; lag < n; ++lag) column.push_back(kernel(lag));
  return column;
}

double product(const double* a, const double* b, int n) {
  double sum = 0;
  for (int i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

/// The pairs are orthonormal, solve A v = lambda v, and there is no larger eigenvalue.
void expect_pairs(const ToeplitzPairs& pairs, const std::vector<double>& column, int count) {
  const auto n = static_cast<int>(column.size());
  std::vector<double> matrix;
  for (int i = 0; i < n; ++i) {
    for (int j = 0; j < n; ++j) matrix.push_back(column[static_cast<std::size_t>(std::abs(i - j))]);
  }
  ASSERT_EQ(pairs.values.size(), static_cast<std::size_t>(count));
  ASSERT_EQ(pairs.vectors.size(), static_cast<std::size_t>(count) * n);
  const SymmetricEigen all = symmetric_eigen(matrix, n);
  const double largest = all.values.back();
  for (int k = 0; k < count; ++k) {
    EXPECT_NEAR(pairs.values[k], all.values[static_cast<std::size_t>(n - 1 - k)], 2e-13 * largest) << k;
    const double* v = pairs.vectors.data() + k * n;
    double residual = 0;
    for (int i = 0; i < n; ++i) residual += std::pow(product(matrix.data() + i * n, v, n) - pairs.values[k] * v[i], 2);
    EXPECT_LE(std::sqrt(residual), 1e-12 * largest) << k;
    for (int other = 0; other <= k; ++other)
      EXPECT_NEAR(product(v, pairs.vectors.data() + other * n, n), other == k ? 1.0 : 0.0, 1e-12) << k << ", " << other;
  }
}

TEST(ToeplitzEigen, ExponentialPairsSolveTheirMatrix) {
  for (const double rate : {1.0 / 64, 0.001, 0.4, 5.0, 40.0}) {
    for (const int n : {1, 2, 3, 16, 37, 300}) {
      SCOPED_TRACE(std::to_string(rate) + ", " + std::to_string(n));
      const int count = std::min(n, 16);
      expect_pairs(exponential_pairs(rate, n, count), column_of(n, [&](int lag) { return std::exp(-rate * lag); }),
                   count);
    }
  }
}

TEST(ToeplitzEigen, LanczosFindsThePairsOfSmoothAndRoughKernels) {
  for (const double scale : {64.0, 5.0, 1000.0, 0.05}) {
    for (const int n : {1, 2, 3, 16, 37, 300}) {
      SCOPED_TRACE(std::to_string(scale) + ", " + std::to_string(n));
      const int count = std::min(n, 16);
      const auto gauss = column_of(n, [&](int lag) { return std::exp(-0.5 * lag * lag / (scale * scale)); });
      expect_pairs(toeplitz_pairs(gauss, count), gauss, count);
      const auto matern = column_of(n, [&](int lag) { return (1 + lag / scale) * std::exp(-lag / scale); });
      expect_pairs(toeplitz_pairs(matern, count), matern, count);
    }
  }
}

TEST(ToeplitzEigen, LanczosAgreesWithTheClosedFormOfThreeThousandRows) {
  constexpr int n = 3000, count = 16;
  const double rate = 1.0 / 64;
  const ToeplitzPairs closed = exponential_pairs(rate, n, count);
  const ToeplitzPairs found = toeplitz_pairs(column_of(n, [&](int lag) { return std::exp(-rate * lag); }), count);
  for (int k = 0; k < count; ++k) {
    EXPECT_NEAR(found.values[k] / closed.values[k], 1.0, 1e-12) << k;
    EXPECT_NEAR(std::abs(product(&found.vectors[k * n], &closed.vectors[k * n], n)), 1.0, 1e-12) << k;
  }
}

// The second difference, 2 on the diagonal and -1 next to it, has eigenvalues 2 - 2 cos(k pi / (n + 1)).
TEST(ToeplitzEigen, LanczosFindsTheSpectrumOfTheSecondDifference) {
  constexpr int n = 101, count = 7;
  const ToeplitzPairs found =
      toeplitz_pairs(column_of(n, [](int lag) { return lag == 0   ? 2.0
                                                       : lag == 1 ? -1.0
                                                                  : 0.0; }), count);
  for (int k = 0; k < count; ++k)
    EXPECT_NEAR(found.values[k], 2.0 - 2.0 * std::cos((n - k) * std::numbers::pi / (n + 1)), 1e-12) << k;
}

TEST(ToeplitzEigen, AMultipleOfTheIdentityHasAnyOrthonormalVectors) {
  const auto column = column_of(50, [](int lag) { return lag == 0 ? 3.0 : 0.0; });
  expect_pairs(toeplitz_pairs(column, 12), column, 12);
}

// The trace of the operator is τ, and its first eigenvalue solves w tan(w/2) = 1 for the even functions.
TEST(KlLimit, WeightedKernelsReachTheContinuousOperatorAndEquation30DoesNot) {
  const int rows[] = {256, 1024, 4096};
  constexpr double tau = 64;
  const std::vector<KlLimit> limits = kl_limits(tau, 40, rows);
  double trace = 0;
  for (const KlLimit& mode : limits) {
    trace += mode.continuous;
    const double w = std::sqrt(2 * tau / mode.continuous - 1);
    const double side = mode.mode % 2 == 1 ? w * std::tan(w / 2) - 1 : std::tan(w / 2) + w;
    EXPECT_NEAR(side, 0, 1e-9 * (1 + w * w)) << mode.mode;
    double before = 1;
    for (std::size_t i = 0; i < 3; ++i) {
      const double error = std::abs(mode.weighted[i] / mode.continuous - 1);
      EXPECT_LT(error, before / 3.5) << "the error falls as 1/T: " << mode.mode;
      before = error;
    }
    EXPECT_LT(before, 0.005 * mode.mode);
    for (std::size_t i = 0; i < 3; ++i) {
      const double most = (1 + std::exp(-1 / tau)) / (1 - std::exp(-1 / tau));  // of e^(-|i - j|/τ), however many rows
      EXPECT_LT(mode.shrinking[i], tau / (rows[i] - 1) * most) << "this one falls to nothing: " << mode.mode;
    }
  }
  EXPECT_NEAR(trace, tau, 0.006 * tau);
}

}  // namespace
}  // namespace afterglow
