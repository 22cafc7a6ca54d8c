// Moved and switched-off modes: closed forms for small operators, exact zeros, real results.
#include "core/analysis/koopman/edited_operator.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/analysis/linear_algebra/spectrum.h"

namespace afterglow {
namespace {

using Complex = std::complex<double>;

/// Not normal, two pairs and one real mode.
const std::vector<double> five{0.5,  -0.6, 0.1, 0, 0.2, 0.6, 0.5, 0,    0.3, 0, 0, 0.1,  0.3,
                               -0.2, 0.1,  0,   0, 0.2, 0.3, 0.4, 0.05, 0,   0, 0, -0.25};

std::vector<double> product(const std::vector<double>& a, const std::vector<double>& b, std::size_t n) {
  std::vector<double> c(n * n, 0.0);
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t k = 0; k < n; ++k)
      for (std::size_t j = 0; j < n; ++j) c[i * n + j] += a[i * n + k] * b[k * n + j];
  return c;
}

void expect_near(const std::vector<double>& a, const std::vector<double>& b, double tolerance) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], tolerance) << i;
}

TEST(EditedPower, IsThePowerWithoutEdits) {
  std::vector<double> scaled = five;
  for (double& number : scaled) number *= 1.2;
  expect_near(edited_power(five, 5, 1.2, 3, {}), product(product(scaled, scaled, 5), scaled, 5), 1e-14);
  const std::vector<double> identity = edited_power(five, 5, 1.2, 0, {});
  for (std::size_t i = 0; i < 25; ++i) EXPECT_EQ(identity[i], i % 6 == 0 ? 1 : 0);
}

TEST(EditedPower, MovesAnEigenvalueWithItsPartnerAndNothingElse) {
  const std::vector<Complex> before = eigenvalues(five, 5);
  ASSERT_NE(before[0].imag(), 0);
  for (const int member : {0, 1}) {
    const std::vector<ModeEdit> edits{{member, false, Complex(0.2, 0.7)}};
    std::vector<Complex> after = eigenvalues(edited_power(five, 5, 1, 1, edits), 5);
    std::vector<Complex> wanted = before;
    wanted[0] = {0.2, -0.7};
    wanted[1] = {0.2, 0.7};
    for (const Complex& mode : wanted) {
      double nearest = 1;
      for (const Complex& found : after) nearest = std::min(nearest, std::abs(found - mode));
      EXPECT_LT(nearest, 1e-12) << mode;
    }
    const EditedModes modes = edit_modes(before, edits);
    EXPECT_EQ(std::abs(modes.eigenvalues[0]), std::abs(Complex(0.2, 0.7)));
    EXPECT_EQ(modes.eigenvalues[0], std::conj(modes.eigenvalues[1]));
    EXPECT_GT(modes.eigenvalues[0].imag() * before[0].imag(), 0);
  }
}

TEST(EditedPower, KeepsARealModeReal) {
  const std::vector<Complex> before = eigenvalues(five, 5);
  const int real = static_cast<int>(
      std::find_if(before.begin(), before.end(), [](Complex l) { return l.imag() == 0; }) - before.begin());
  const EditedModes modes = edit_modes(before, std::vector<ModeEdit>{{real, false, Complex(0.3, 0.4)}});
  EXPECT_EQ(modes.eigenvalues[static_cast<std::size_t>(real)],
            Complex(before[static_cast<std::size_t>(real)].real() < 0 ? -0.5 : 0.5));
}

TEST(EditedPower, WhereItIsLeavesTheOperatorAsItIs) {
  const std::vector<Complex> before = eigenvalues(five, 5);
  for (int mode = 0; mode < 5; ++mode) {
    const std::vector<ModeEdit> edits{{mode, false, before[static_cast<std::size_t>(mode)]}};
    expect_near(edited_power(five, 5, 1.1, 2, edits), edited_power(five, 5, 1.1, 2, {}), 1e-13);
  }
}

TEST(EditedPower, OffAndKeptModesAddUpToTheWhole) {
  for (const int power : {0, 1, 4}) {
    std::vector<double> sum(25, 0.0);
    const std::vector<Complex> before = eigenvalues(five, 5);
    for (int kept = 0; kept < 5; ++kept) {
      if (before[static_cast<std::size_t>(kept)].imag() < 0) continue;  // its partner speaks for both
      std::vector<ModeEdit> edits;
      const Complex own = before[static_cast<std::size_t>(kept)];
      for (int mode = 0; mode < 5; ++mode) {
        const Complex other = before[static_cast<std::size_t>(mode)];
        if (other != own && other != std::conj(own)) edits.push_back({mode, true, {}});
      }
      const std::vector<double> share = edited_power(five, 5, 1.3, power, edits);
      for (std::size_t i = 0; i < 25; ++i) sum[i] += share[i];
    }
    expect_near(sum, edited_power(five, 5, 1.3, power, {}), 1e-12);
  }
}

TEST(EditedPower, IsExactlyZeroWithEveryModeOff) {
  std::vector<ModeEdit> all;
  for (int mode = 0; mode < 5; ++mode) all.push_back({mode, true, {}});
  for (const int power : {0, 1, 2, 8}) {
    for (const double number : edited_power(five, 5, 1.3, power, all)) EXPECT_EQ(number, 0.0);
  }
}

TEST(EditedPower, RefusesWhatItCannotTakeApart) {
  const std::vector<double> defective{1, 1, 0, 1};
  EXPECT_TRUE(edited_power(defective, 2, 1, 1, std::vector<ModeEdit>{{0, false, Complex(0.5)}}).empty());
  EXPECT_FALSE(edited_power(defective, 2, 1, 1, {}).empty());
  EXPECT_TRUE(edited_power(std::vector<double>{1, NAN, 0, 1}, 2, 1, 1, {}).empty());
  EXPECT_TRUE(edited_power(five, 4, 1, 1, {}).empty());
  EXPECT_EQ(edited_power(five, 5, 1, 1, std::vector<ModeEdit>{{7, true, {}}, {-1, true, {}}}),
            edited_power(five, 5, 1, 1, {}));
}

TEST(EditedReadout, IsTheProductItSays) {
  // L = [[2,0],[1,4]], W = [[1,2],[3,4]], C = [[2,4]]: C L^-T = [1, 3/4], times W = [13/4, 5], times L^-1.
  const std::vector<double> E =
      edited_readout(std::vector<double>{2, 4}, std::vector<double>{2, 0, 1, 4}, std::vector<double>{1, 2, 3, 4}, 2, 1);
  expect_near(E, {1.0, 1.25}, 1e-14);
  EXPECT_TRUE(
      edited_readout(std::vector<double>{2}, std::vector<double>{2, 0, 1, 4}, std::vector<double>{1, 2, 3, 4}, 2, 1)
          .empty());
}

// Learned pairs: each entry is one of a pair, moves alone and cannot leave the disk.
TEST(EditedPairs, MoveAloneOnTheirSideAndStayInTheDisk) {
  const std::vector<Complex> learned{{0.8, 0.3}, {0.8, -0.3}, {0.5, 0}, {0.1, 0.2}};
  const std::vector<ModeEdit> edits{{0, false, Complex(0.2, -0.4)},
                                    {1, false, Complex(3, 4)},
                                    {2, true, Complex(0.25, -0.5)},
                                    {7, true, Complex(0.5, 0)}};
  const EditedModes modes = edit_pairs(learned, edits);
  EXPECT_EQ(modes.eigenvalues[0], Complex(0.2, 0.4)) << "its conjugate was dragged";
  EXPECT_NEAR(std::abs(modes.eigenvalues[1] - Complex(0.6, -0.8)), 0, 1e-15) << "on the circle";
  EXPECT_EQ(modes.eigenvalues[2], Complex(0.25, 0.5)) << "what did not turn may begin to";
  EXPECT_EQ(modes.eigenvalues[3], learned[3]);
  EXPECT_EQ(modes.is_off, (std::vector<bool>{false, false, true, false}));
}

}  // namespace
}  // namespace afterglow
