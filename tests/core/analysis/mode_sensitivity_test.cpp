// First-order moves of eigenvalues against the eigenvalues of changed matrices.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "core/analysis/koopman/mode_decomposition.h"
#include "core/analysis/linear_algebra/spectrum.h"

namespace afterglow {
namespace {

std::vector<double> random_matrix(int n, unsigned seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<double> normal(0, 1 / std::sqrt(n));
  std::vector<double> A(static_cast<std::size_t>(n) * static_cast<std::size_t>(n));
  for (double& value : A) value = normal(generator);
  return A;
}

TEST(ModeSensitivity, PredictsSmallMoves) {
  constexpr int n = 9;
  constexpr double h = 1e-6;
  const std::vector<double> A = random_matrix(n, 1), E = random_matrix(n, 2);
  std::vector<double> ahead = A, behind = A;
  for (std::size_t i = 0; i < A.size(); ++i) {
    ahead[i] += h * E[i];
    behind[i] -= h * E[i];
  }
  const auto up = eigenvalues(ahead, n), down = eigenvalues(behind, n);
  const std::vector<ModeSensitivity> modes = mode_sensitivities(A, n);
  ASSERT_EQ(modes.size(), 9u);
  std::vector<std::complex<double>> values;
  for (const ModeSensitivity& mode : modes) values.push_back(mode.value);
  const std::vector<int> to = nearest_of_each(values, up), from = nearest_of_each(values, down);
  for (std::size_t i = 0; i < modes.size(); ++i) {
    const auto slope = (up[static_cast<std::size_t>(to[i])] - down[static_cast<std::size_t>(from[i])]) / (2 * h);
    EXPECT_LT(std::abs(first_order_move(modes[i], E) - slope), 1e-6 * modes[i].condition) << modes[i].value;
  }
}

TEST(ModeSensitivity, OfANormalMatrixIsOne) {
  const std::vector<double> rotation{0.6, -0.5, 0.5, 0.6};
  const std::vector<ModeSensitivity> modes = mode_sensitivities(rotation, 2);
  ASSERT_EQ(modes.size(), 2u);
  for (const ModeSensitivity& mode : modes) EXPECT_NEAR(mode.condition, 1, 1e-12);
  EXPECT_TRUE(first_order_holds(modes, 0, std::vector<double>{0.1, 0, 0, 0.1})) << "the whole plane moves";
  EXPECT_TRUE(first_order_holds(modes, 0, std::vector<double>{0, 0, 0, 0}));
}

TEST(ModeSensitivity, TellsWhereTheSecondOrderIsAsLarge) {
  // Two eigenvalues 0.02 apart that a symmetric change drives apart: lambda = 0.5 +- sqrt(1e-4 + e^2).
  const std::vector<double> near{0.51, 0, 0, 0.49};
  const std::vector<ModeSensitivity> modes = mode_sensitivities(near, 2);
  EXPECT_FALSE(first_order_holds(modes, 0, std::vector<double>{0.001, 0.05, 0.05, 0.001}));
  EXPECT_TRUE(first_order_holds(modes, 0, std::vector<double>{0.001, 0.002, 0.002, 0.001}));
}

TEST(ModeSensitivity, OfADefectiveEigenvaluePromisesNothing) {
  const std::vector<double> jordan{0.5, 1, 0, 0.5};
  const std::vector<ModeSensitivity> modes = mode_sensitivities(jordan, 2);
  for (std::size_t i = 0; i < modes.size(); ++i) {
    EXPECT_GT(modes[i].condition, defective_condition);
    EXPECT_FALSE(first_order_holds(modes, i, std::vector<double>{0, 0, 1e-12, 0}));
  }
}

TEST(ModeSensitivity, RefusesWhatIsNotFinite) {
  EXPECT_TRUE(mode_sensitivities(std::vector<double>{1, NAN, 0, 1}, 2).empty());
  EXPECT_TRUE(mode_sensitivities({}, 0).empty());
}

TEST(NearestOfEach, GivesEachValueOnce) {
  const std::vector<std::complex<double>> wanted{0.0, 0.1, 5.0}, values{0.09, 0.02};
  EXPECT_EQ(nearest_of_each(wanted, values), (std::vector<int>{1, 0, -1}));
}

}  // namespace
}  // namespace afterglow
