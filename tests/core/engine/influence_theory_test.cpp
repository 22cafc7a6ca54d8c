// Laws that a measured routing promises.
#include "core/engine/observation/influence_theory.h"

#include <gtest/gtest.h>

#include <cmath>

namespace afterglow {
namespace {

RoutingView feedback(std::vector<double> gain, double c2) {
  RoutingView routing;
  routing.gain = std::move(gain);
  routing.c2 = c2;
  return routing;
}

TEST(InfluenceTheory, TheEnvelopeTakesTheLargestGainOfEitherSign) {
  const InfluenceTheory theory = envelope_of(feedback({0.1, -0.4, 0.2}, 1.5));
  EXPECT_EQ(theory.law, TheoryLaw::feedback_envelope);
  EXPECT_NEAR(theory.parameter, 1 - 0.4 * 1.5, 1e-12);
  EXPECT_NEAR(theory.at(100) / theory.at(10), std::pow(10, -0.4), 1e-12);
  EXPECT_EQ(envelope_of(feedback({0.9}, 1.5)).law, TheoryLaw::none) << "gamma c2 >= 1 leaves no envelope";
  EXPECT_EQ(envelope_of({}).law, TheoryLaw::none) << "without a feedback there is none";
}

TEST(InfluenceTheory, StackedFeedbacksAddTheirGains) {
  const std::vector<RoutingView> two{feedback({0.5, 0.7}, 1), {}, feedback({0.4}, 1)};
  const InfluenceTheory theory = deep_theory_of(two);
  EXPECT_EQ(theory.law, TheoryLaw::deep_feedback);
  EXPECT_EQ(theory.blocks, 2);
  EXPECT_NEAR(theory.parameter, 2 * 0.5 - 1, 1e-12) << "mean gains 0.6 and 0.4";
  EXPECT_EQ(deep_theory_of(std::span(two).first(2)).law, TheoryLaw::none) << "one block has its own law";
  const std::vector<RoutingView> negative{feedback({-0.5}, 1), feedback({0.2}, 1)};
  EXPECT_EQ(deep_theory_of(negative).law, TheoryLaw::none);
}

TEST(InfluenceTheory, RegimesAreNamedByTheirExponent) {
  EXPECT_EQ(regime_name(-0.5), "decaying");
  EXPECT_EQ(regime_name(0), "frozen");
  EXPECT_EQ(regime_name(0.5), "increasing");
}

}  // namespace
}  // namespace afterglow
