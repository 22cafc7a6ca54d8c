// Modes: known spectra, energies, tracking.
#include "core/analysis/koopman/mode_decomposition.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

namespace afterglow {
namespace {

using Complex = std::complex<double>;

TEST(DecomposeModes, RotationTimesModulusBesideARealMode) {
  const double c = 0.9 * std::cos(0.5), s = 0.9 * std::sin(0.5);
  const std::vector<double> A = {c, -s, 0, s, c, 0, 0, 0, -0.3};
  const ModeDecomposition modes = decompose_modes(A, 3, std::vector<double>{0, 0, 2});
  ASSERT_EQ(modes.eigenvalues.size(), 3u);
  EXPECT_NEAR(std::abs(modes.eigenvalues[0]), 0.9, 1e-12);
  EXPECT_NEAR(std::arg(modes.eigenvalues[0]), -0.5, 1e-12) << "within a modulus the smaller angle comes first";
  EXPECT_NEAR(std::arg(modes.eigenvalues[1]), 0.5, 1e-12);
  EXPECT_NEAR(modes.eigenvalues[2].real(), -0.3, 1e-12);
  EXPECT_NEAR(modes.energy[2], 1.0, 1e-12) << "the query lies in the real mode";
}

TEST(DecomposeModes, AwkwardInputGivesAnEmptyOrHonestAnswer) {
  EXPECT_TRUE(decompose_modes({}, 0, {}).eigenvalues.empty());
  EXPECT_TRUE(decompose_modes(std::vector<double>{NAN}, 1, {}).eigenvalues.empty());
  const ModeDecomposition zero = decompose_modes(std::vector<double>(4, 0.0), 2, std::vector<double>{0, 0});
  ASSERT_EQ(zero.energy.size(), 2u);
  EXPECT_DOUBLE_EQ(zero.energy[0], 0.5);
  const ModeDecomposition defective =
      decompose_modes(std::vector<double>{0.5, 1, 0, 0.5}, 2, std::vector<double>{1, 1});
  EXPECT_NEAR(defective.eigenvalues[0].real(), 0.5, 1e-6);
}

TEST(TrackModes, KeepNumbersWhenTheOrderChanges) {
  const std::vector<Complex> before = {{0.9, -0.1}, {0.9, 0.1}, {0.5, 0}, {-0.4, 0}};
  const std::vector<int> first = track_modes({}, before);
  EXPECT_EQ(first, (std::vector<int>{0, 1, 2, 3})) << "each has its own, conjugates too";
  const std::vector<Complex> now = {{0.52, 0}, {-0.45, 0}, {0.3, -0.12}, {0.3, 0.12}};
  EXPECT_EQ(track_modes({before, first}, now), (std::vector<int>{2, 3, 0, 1}));
}

TEST(TrackModes, RealModesThatBecomeAPairAndPartAgainKeepTheirNumbers) {
  const std::vector<Complex> apart = {{0.6, 0}, {0.4, 0}, {-0.1, 0}}, pair = {{0.5, -0.1}, {0.5, 0.1}, {-0.1, 0}};
  const std::vector<int> of_the_pair = track_modes({apart, {4, 7, 2}}, pair);
  EXPECT_EQ((std::set<int>{of_the_pair[0], of_the_pair[1]}), (std::set<int>{4, 7}));
  const std::vector<int> again = track_modes({pair, of_the_pair}, apart);
  EXPECT_EQ((std::set<int>{again[0], again[1]}), (std::set<int>{4, 7}));
  EXPECT_EQ(again[2], 2);
}

TEST(TrackModes, ANewModeTakesAFreeNumberAndNotANumberNeverFollows) {
  EXPECT_EQ(track_modes({{{0.5, 0}}, {0}}, {{0.51, 0}, {0.1, 0}}), (std::vector<int>{0, 1}));
  EXPECT_EQ(track_modes({{{0.5, 0}, {NAN, 0}}, {1, 0}}, {{NAN, 0}, {0.5, 0}}), (std::vector<int>{0, 1}));
}

TEST(SolveLower, InvertsATriangle) {
  const std::vector<double> x = solve_lower(std::vector<double>{2, 99, 1, 4}, 2, std::vector<double>{2, 9});
  EXPECT_DOUBLE_EQ(x[0], 1);
  EXPECT_DOUBLE_EQ(x[1], 2);
}

}  // namespace
}  // namespace afterglow
