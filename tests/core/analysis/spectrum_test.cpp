// Eigenvalues and extreme eigenvalues against closed forms.
#include "core/analysis/linear_algebra/spectrum.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

namespace afterglow {
namespace {

constexpr double nan_value = std::numeric_limits<double>::quiet_NaN();

TEST(Spectrum, EigenvaluesOfARotationComeAsAnOrderedPair) {
  const double c = 0.9 * std::cos(0.7), s = 0.9 * std::sin(0.7);
  const std::vector<double> A{c, -s, 0, s, c, 0, 0, 0, -0.95};
  const std::vector<std::complex<double>> values = eigenvalues(A, 3);
  ASSERT_EQ(values.size(), 3u);
  EXPECT_NEAR(std::abs(values[0] - std::complex<double>(-0.95, 0.0)), 0.0, 1e-14);
  EXPECT_NEAR(std::arg(values[1]), -0.7, 1e-14);
  EXPECT_NEAR(std::arg(values[2]), 0.7, 1e-14);
  EXPECT_NEAR(std::abs(values[1]), 0.9, 1e-14);
}

// The cyclic shift of n points has the n-th roots of unity.
TEST(Spectrum, EigenvaluesOfACyclicShiftAreRootsOfUnity) {
  for (const int n : {1, 2, 37}) {
    std::vector<double> A(static_cast<std::size_t>(n * n), 0.0);
    for (int i = 0; i < n; ++i) A[(i + 1) % n * n + i] = 1.0;
    for (const std::complex<double>& value : eigenvalues(A, n)) {
      EXPECT_NEAR(std::abs(value), 1.0, 1e-13);
      EXPECT_NEAR(std::abs(std::pow(value, n) - 1.0), 0.0, 1e-11);
    }
  }
}

std::vector<double> diagonal(int n) {
  std::vector<double> A(static_cast<std::size_t>(n * n), 0.0);
  for (int i = 0; i < n; ++i) A[static_cast<std::size_t>(i * n + i)] = 1.0 / (1 + i);
  return A;
}

TEST(Spectrum, ARegisteredSolverIsAskedForLargeMatricesOnly) {
  register_general_eigen_solver([](int n, const double*, std::complex<double>* values) {
    std::fill(values, values + n, std::complex<double>(0, 7));
    return true;
  });
  EXPECT_EQ(eigenvalues(diagonal(large_general), large_general).front(), std::complex<double>(0, 7));
  EXPECT_NEAR(eigenvalues(diagonal(large_general - 1), large_general - 1).front().real(), 1.0, 1e-14);
  register_general_eigen_solver([](int, const double*, std::complex<double>*) { return false; });
  EXPECT_NEAR(eigenvalues(diagonal(large_general), large_general).front().real(), 1.0, 1e-14)
      << "one that cannot leaves it to Eigen";
  register_general_eigen_solver(nullptr);
}

TEST(Spectrum, ExtremesOfTheSecondDifference) {
  const int n = 63;
  std::vector<double> S(static_cast<std::size_t>(n * n), 0.0);
  for (int i = 0; i < n; ++i) {
    S[i * n + i] = 2.0;
    if (i > 0) S[i * n + i - 1] = S[(i - 1) * n + i] = -1.0;
  }
  const SymmetricRange range = symmetric_range(S, n);
  const double angle = std::numbers::pi / (2.0 * (n + 1));
  const double smallest = 4.0 * std::sin(angle) * std::sin(angle), largest = 4.0 * std::cos(angle) * std::cos(angle);
  EXPECT_NEAR(range.smallest, smallest, 1e-14);
  EXPECT_NEAR(range.largest, largest, 1e-13);
  const std::vector<double> all = symmetric_spectrum(S, n);
  ASSERT_EQ(all.size(), 63u);
  for (int j = 0; j < n; ++j) {
    const double cosine = std::cos((j + 1) * angle);
    EXPECT_NEAR(all[static_cast<std::size_t>(j)], 4.0 * cosine * cosine, 1e-13) << "descending";
  }
}

TEST(Spectrum, DamagedMatricesAreSaidToBeSo) {
  const std::vector<double> bad{1, nan_value, 0, 1};
  EXPECT_TRUE(eigenvalues(bad, 2).empty());
  EXPECT_TRUE(std::isnan(symmetric_range(bad, 2).smallest));
  EXPECT_TRUE(symmetric_spectrum(bad, 2).empty());
  EXPECT_TRUE(symmetric_spectrum(bad, 3).empty()) << "another size";
  EXPECT_TRUE(eigenvalues({}, 0).empty());
  EXPECT_TRUE(eigenvalues({}, 2).empty()) << "what could not be computed is handed on";
}

}  // namespace
}  // namespace afterglow
