// Laws that a measured routing promises.
#include "core/engine/observation/influence_theory.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/analysis/influence.h"

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

/// Uniform routing with constant gain: c2 = 1 and a solve that is known.
RoutingView uniform(double gamma, int tokens) {
  RoutingView routing = feedback(std::vector<double>(static_cast<std::size_t>(tokens), gamma), 1);
  routing.tokens = tokens;
  std::vector<double> B(static_cast<std::size_t>(tokens * tokens), 0.0);
  for (int t = 1; t < tokens; ++t) {
    for (int j = 0; j < t; ++j) B[static_cast<std::size_t>(t * tokens + j)] = gamma / t;
  }
  const std::vector<double> R = resolvent(B, tokens);
  routing.resolvent.assign(R.begin(), R.end());
  routing.position_code = position_code(B, tokens);
  return routing;
}

TEST(InfluenceTheory, TheoremEightHoldsAtItsAbsoluteHeight) {
  for (const double gamma : {0.1, 0.5, 0.9, -0.7}) {
    const RoutingView routing = uniform(gamma, 200);
    const InfluenceTheory envelope = fixed_envelope_of(routing, {});
    EXPECT_TRUE(envelope.is_absolute);
    for (int tau : {0, 3, 50}) {
      for (int t = tau + 1; t < 200; ++t)
        EXPECT_LE(std::abs(routing.resolvent[static_cast<std::size_t>(t * 200 + tau)]), envelope.at(t - tau));
    }
    const FeedbackBounds bounds = bounds_of(routing);
    EXPECT_NEAR(bounds.mass, std::abs(gamma), 1e-12);
    EXPECT_LE(bounds.envelope_share, 1);
    EXPECT_GT(bounds.envelope_share, 0.1) << "the height means something";
    EXPECT_LE(bounds.amplification, bounds.bound);
  }
}

TEST(InfluenceTheory, BoundsAreThoseOfUniformRouting) {
  const RoutingView routing = uniform(0.5, 100);
  const FeedbackBounds bounds = bounds_of(routing);
  EXPECT_NEAR(bounds.bound, 2, 1e-12);
  EXPECT_NEAR(bounds.amplification, uniform_position_code(0.5, 99), 1e-5) << "its rows are positive";
  EXPECT_TRUE(bounds.is_ordered);
  EXPECT_NEAR(bounds.least_step, uniform_position_code(0.5, 99) - uniform_position_code(0.5, 98), 1e-9);
  EXPECT_FALSE(bounds_of(uniform(-0.5, 100)).is_ordered && bounds_of(uniform(-0.5, 100)).least_step > 1);
  const FeedbackBounds broken = bounds_of(feedback({0.9}, 1.5));
  EXPECT_TRUE(std::isnan(broken.envelope_share));
  EXPECT_NEAR(broken.mass, 1.35, 1e-12);
}

TEST(InfluenceTheory, DirectReadsAreBoundedByTheirVisibleTokens) {
  RoutingView attention;
  attention.c2 = 3;
  const std::vector<int> sources{5, 9};
  const InfluenceTheory theory = fixed_envelope_of(attention, sources);
  EXPECT_EQ(theory.law, TheoryLaw::diffuse_envelope);
  EXPECT_NEAR(theory.at(10), 3.0 / 16, 1e-12);
  EXPECT_EQ(fixed_envelope_of({}, sources).law, TheoryLaw::none);
}

TEST(InfluenceTheory, FrozenTimeIsTheSlowestStretch) {
  RoutingView state;
  for (const double rate : {9.0, 1.0, 0.5, 0.25, 0.25, 1.0}) state.decay.push_back(std::exp(-rate));
  EXPECT_NEAR(slowest_rate(state, 2), 0.25, 1e-12);
  EXPECT_NEAR(slowest_rate(state, 3), 1.0 / 3, 1e-12);
  EXPECT_NEAR(slowest_rate(state, 5), 0.6, 1e-12) << "the first token has nothing to keep";
  EXPECT_TRUE(std::isnan(slowest_rate(state, 6)));
}

}  // namespace
}  // namespace afterglow
