// Theorem 12's regimes from the Jacobian of a stack.
#include "core/engine/analyses/influence/deep_experiment.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/analysis/influence/influence.h"

namespace afterglow {
namespace {

const std::vector<DeepProfile>& measured() {
  static const auto profiles = [] {
    DeepExperiment experiment;
    EXPECT_FALSE(experiment.profiles());
    while (experiment.advance()) {
    }
    EXPECT_FALSE(experiment.advance()) << "it is made once";
    return experiment.profiles();
  }();
  return *profiles;
}

TEST(DeepExperiment, HasTheRegimesOfTheTheorem) {
  ASSERT_EQ(measured().size(), 6u);
  for (const DeepProfile& deep : measured()) {
    EXPECT_EQ(deep.theory, deep_exponent(deep.blocks, deep.beta));
    EXPECT_NEAR(deep.fit.power.slope, deep.theory, 0.05) << deep.blocks << " blocks, beta " << deep.beta;
    EXPECT_NEAR(deep.far_fit.power.slope, deep.theory, 0.01) << deep.blocks << " blocks, beta " << deep.beta;
    EXPECT_LT(deep.fit.power.slope_high - deep.fit.power.slope_low, 0.05);
  }
  EXPECT_EQ(measured()[1].theory, 0) << "frozen";
  EXPECT_LT(measured()[0].fit.power.slope_high, 0) << "decaying beyond doubt";
  EXPECT_GT(measured()[2].fit.power.slope_low, 0) << "increasing beyond doubt";
}

TEST(DeepExperiment, TheJacobianOfTheStackIsTheTransportOfAnImpulse) {
  for (const DeepProfile& deep : measured()) {
    const InfluenceProfile expected = uniform_stack_profile(deep.blocks, 1 - deep.beta, 0, 1024);
    ASSERT_FALSE(deep.lags.empty());
    EXPECT_EQ(deep.lags.back(), 1023);
    for (std::size_t i = 0; i < deep.lags.size(); ++i) {
      const double value = expected.values[static_cast<std::size_t>(deep.lags[i])];
      EXPECT_NEAR(deep.values[i], value, 1e-10 * value) << deep.blocks << " blocks, lag " << deep.lags[i];
    }
  }
}

}  // namespace
}  // namespace afterglow
