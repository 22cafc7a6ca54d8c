// Gradients of eigenvalues against finite differences, and projections fitted to a spectrum.
#include "core/analysis/koopman/spectrum_fit.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "core/analysis/koopman/mode_decomposition.h"
#include "core/analysis/linear_algebra/spectrum.h"

namespace afterglow {
namespace {

using Complex = std::complex<double>;

struct FitCase {
  KeyOperator keys;
  std::vector<double> projection;
};

FitCase made_case(bool is_masked) {
  constexpr int tokens = 20, rank = 5, width = 9;
  std::mt19937 generator(4);
  std::normal_distribution<double> normal;
  FitCase made;
  made.keys.rank = rank;
  made.keys.width = width;
  made.keys.ridge = 0.01;
  for (int i = 0; i < tokens * width; ++i) made.keys.inputs.push_back(normal(generator));
  for (int t = 0; t < tokens; ++t) made.keys.is_counted.push_back(is_masked && t % 4 == 2 ? 0 : 1);
  made.keys.is_measured = made.keys.is_counted;
  for (int i = 0; i < rank * width; ++i) made.projection.push_back(normal(generator) / 3);
  return made;
}

std::vector<Complex> fitted_spectrum(const FitCase& of, const std::vector<double>& projection) {
  return eigenvalues(operator_of_keys(of.keys, projection), of.keys.rank);
}

/// Newton's method, so exact derivatives: what is left of a short way is squared in each round.
TEST(SpectrumFit, DoublesItsDigitsInEachRound) {
  for (const bool is_masked : {false, true}) {
    const FitCase made = made_case(is_masked);
    std::vector<Complex> target = fitted_spectrum(made, made.projection);
    for (Complex& value : target) value *= 0.98;
    const SpectrumFit fit = fit_spectrum(made.keys, made.projection, target);
    EXPECT_LT(fit.distance, 1e-10);
    EXPECT_LE(fit.rounds, 4) << "0.02, 4e-4, 2e-7, 3e-14 times a constant";
    double moved = 0;
    for (std::size_t i = 0; i < fit.projection.size(); ++i)
      moved = std::max(moved, std::abs(fit.projection[i] - made.projection[i]));
    EXPECT_LT(moved, 0.1) << "the nearest projection, not any";
  }
}

TEST(SpectrumFit, ReachesItsTarget) {
  const FitCase made = made_case(false);
  std::vector<Complex> target = fitted_spectrum(made, made.projection);
  for (Complex& value : target)
    value *= value.imag() > 0 ? Complex(1.2, 0.2) : value.imag() < 0 ? Complex(1.2, -0.2) : 0.8;
  const SpectrumFit fit = fit_spectrum(made.keys, made.projection, target);
  EXPECT_LT(fit.distance, 1e-9);
  const auto reached = fitted_spectrum(made, fit.projection);
  const auto meant = nearest_of_each(target, reached);
  for (std::size_t i = 0; i < target.size(); ++i)
    EXPECT_LT(std::abs(reached[static_cast<std::size_t>(meant[i])] - target[i]), 1e-9);
}

TEST(SpectrumFit, ToThePresentSpectrumChangesNothing) {
  const FitCase made = made_case(false);
  const SpectrumFit fit = fit_spectrum(made.keys, made.projection, fitted_spectrum(made, made.projection));
  EXPECT_EQ(fit.projection, made.projection);
  EXPECT_EQ(fit.rounds, 0);
}

TEST(SpectrumFit, TellsHowFarItStaysFromWhatCannotBe) {
  const FitCase made = made_case(false);
  std::vector<Complex> target = fitted_spectrum(made, made.projection);
  for (Complex& value : target) value *= 5 / std::abs(value);
  EXPECT_GT(fit_spectrum(made.keys, made.projection, target).distance, 1) << "keys of one sequence stay in the circle";
}

TEST(SpectrumFit, FindsNoWayFromAPairToARealEigenvalue) {
  const FitCase made = made_case(false);
  std::vector<Complex> target = fitted_spectrum(made, made.projection);
  ASSERT_TRUE(std::ranges::any_of(target, [](const Complex& value) { return value.imag() != 0; }));
  for (Complex& value : target) value = std::abs(value);
  const SpectrumFit fit = fit_spectrum(made.keys, made.projection, target);
  EXPECT_TRUE(std::isinf(fit.distance));
  EXPECT_EQ(fit.projection, made.projection);
}

TEST(SpectrumFit, RefusesWhatDoesNotFitTogether) {
  const FitCase made = made_case(false);
  EXPECT_TRUE(std::isinf(fit_spectrum(made.keys, made.projection, {}).distance));
  EXPECT_TRUE(operator_of_keys(made.keys, std::vector<double>{1, 2}).empty());
}

}  // namespace
}  // namespace afterglow
