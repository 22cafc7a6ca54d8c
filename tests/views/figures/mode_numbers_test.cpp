// The numbers of a mode: by their definitions, and the same in figures, readouts and cards.
#include "core/engine/observation/mode_numbers.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "core/analysis/koopman/power_filter.h"
#include "core/figure/axis.h"
#include "tests/support/sample_observations.h"
#include "tests/views/figures/figure_parts.h"
#include "views/analyses/spectra/spectrum_figures.h"
#include "views/plots/formula_card.h"

namespace afterglow {
namespace {

TEST(ModeNumbers, GainsArePowersOfTheModulus) {
  const std::vector<double> moduli{0, 0.5, 1, 1.25};
  EXPECT_EQ(filter_gains(moduli, 0), (std::vector<double>{1, 1, 1, 1}));
  EXPECT_EQ(filter_gains(moduli, 2), (std::vector<double>{0, 0.25, 1, 1.5625}));
  EXPECT_TRUE(filter_gains(moduli, -1).empty());
  HeadSpectrum head;
  head.eigenvalues = {{0.6, 0.8}, {-0.25, 0}};
  head.scale = 2;
  EXPECT_DOUBLE_EQ(mode_gain(head, 0, 3), 8);
  EXPECT_DOUBLE_EQ(mode_gain(head, 1, 2), 0.25);
  EXPECT_TRUE(std::isnan(mode_gain(head, 0, -1)));
}

TEST(ModeNumbers, TimesAreThoseOfTheModulusAndTheAngle) {
  const ModeTimes turning = mode_times({0, 0.5});
  EXPECT_EQ(turning.modulus, 0.5);
  EXPECT_DOUBLE_EQ(turning.half_life, 1);
  EXPECT_DOUBLE_EQ(turning.period, 4);
  EXPECT_DOUBLE_EQ(mode_times({-1, 0}).period, 2);
  EXPECT_NEAR(mode_times(std::polar(std::pow(0.5, 1.0 / 12), -0.1)).half_life, 12, 1e-9);
  EXPECT_NEAR(mode_times(std::polar(0.9, -0.1)).period, 20 * std::numbers::pi, 1e-9);
  EXPECT_EQ(mode_times(0).half_life, 0);
  EXPECT_TRUE(std::isinf(mode_times(1).half_life)) << "it does not fade";
  EXPECT_TRUE(std::isinf(mode_times(1.5).half_life));
  EXPECT_TRUE(std::isinf(mode_times(0.5).period)) << "it does not turn";
}

TEST(ModeNumbers, AreTheSameInFigureReadoutAndCard) {
  const Observation o = samples::mid_training();
  Selection selection;
  selection.power = 3;
  const HeadSpectrum& head = *selected_head(o, selection);
  const auto mode = static_cast<std::size_t>(selected_mode(head, selection));
  std::vector<std::complex<double>> scaled;
  for (const std::complex<double>& lambda : head.eigenvalues) scaled.push_back(head.scale * lambda);
  const double gain = power_gains(scaled, 3).at(mode);

  CurveStore curves;
  bool is_drawn = false;
  for (const ScatterPoint& point : series<Scatter>(power_filter_figures(o, selection, curves).at(0), "modes").points)
    is_drawn = is_drawn || point.y == gain;
  EXPECT_TRUE(is_drawn);
  std::string read;
  for (const ReadoutRow& row : mode_readout(o, selection)) {
    if (row.card == "gain") read = row.value;
  }
  EXPECT_EQ(read, number_text(gain, 3));
  EXPECT_TRUE(find_card("gain")->numbers(o, selection).ends_with(" = " + number_text(gain, 4)));
}

TEST(ModeNumbers, ACardSaysWhereAModeDoesNotFade) {
  Observation o = samples::mid_training();
  auto spectra = std::make_shared<Spectra>(*o.spectra);
  for (HeadSpectrum& head : spectra->heads) {
    for (std::complex<double>& lambda : head.eigenvalues) lambda = 1.25;
  }
  o.spectra = spectra;
  EXPECT_EQ(find_card("half_life")->numbers(o, {}), "|λ| = 1.25: it does not fade");
  EXPECT_EQ(find_card("period")->numbers(o, {}), "real: no period");
}

}  // namespace
}  // namespace afterglow
