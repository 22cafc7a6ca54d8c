// Laws that a measured routing promises.
#include "core/engine/observation/influence_theory.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/analysis/influence/influence.h"

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
  EXPECT_EQ(envelope_of({}).law, TheoryLaw::none) << "without a feedback there is no law";
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

/// The forcing of theorem 23 of one source: `dilution` / t of f and `logits` / t of the feedback's rows.
SourceForcing forcing_of(int source, int tokens, double dilution, double logits) {
  SourceForcing forcing;
  forcing.source = source;
  forcing.own = 1;
  forcing.outlet = 3;
  for (int t = 0; t < tokens; ++t) {
    const double share = t > source ? 1.0 / t : 0;
    forcing.forward.push_back(dilution * share);
    forcing.logits.push_back(logits * share);
    forcing.routing.push_back(0.5 * logits * share);
  }
  return forcing;
}

TEST(EndToEnd, TheoremTwentyThreeStandsAtItsHeightAndYieldsToTheMeasuredSolve) {
  RoutingView routing = uniform(0.5, 80);
  EXPECT_EQ(end_to_end_envelope_of(routing).law, TheoryLaw::none) << "its constants are not known";
  routing.forcing = {forcing_of(0, 80, 2, 1), forcing_of(4, 80, 2, 1)};
  const InfluenceTheory theory = end_to_end_envelope_of(routing);
  EXPECT_EQ(theory.law, TheoryLaw::forced_feedback);
  EXPECT_TRUE(theory.is_absolute);
  EXPECT_NEAR(theory.parameter, 0.5, 1e-12);
  for (const int lag : {1, 7, 75}) {
    const double first = forced_envelope(routing.forcing[0], 0.5)[static_cast<std::size_t>(lag)];
    const double second = forced_envelope(routing.forcing[1], 0.5)[static_cast<std::size_t>(lag)];
    EXPECT_NEAR(theory.at(lag), (first + second) / 2, 1e-12) << lag;
  }
  routing.c2 = 2.5;
  const InfluenceTheory solve = end_to_end_envelope_of(routing);
  EXPECT_EQ(solve.law, TheoryLaw::forced_solve) << "gamma c2 = 1.25";
  EXPECT_NEAR(solve.parameter, 1.25, 1e-12);
  EXPECT_LT(solve.at(20), theory.at(20)) << "the solve that is there lies below its own tail";
  EXPECT_NEAR(solve.at(7),
              (forced_solve(routing.forcing[0], routing.resolvent)[7] +
               forced_solve(routing.forcing[1], routing.resolvent)[7]) /
                  2,
              1e-12);
}

TEST(EndToEnd, PropositionTenDilutesWithItsOwnConstant) {
  RoutingView attention;
  attention.tokens = 40;
  attention.forcing = {forcing_of(3, 40, 2, 0)};
  attention.forcing[0].routing.clear();
  const InfluenceTheory theory = end_to_end_envelope_of(attention);
  EXPECT_EQ(theory.law, TheoryLaw::smooth_attention);
  EXPECT_NEAR(theory.parameter, 3 * 2 * 5.0 / 4, 1e-12) << "outlet 3, C = 2 (t + 1) / t at t = 4";
  EXPECT_NEAR(theory.at(10), theory.parameter / 14, 1e-12);
}

TEST(EndToEnd, PropositionFourFadesByTheAccumulatedStep) {
  RoutingView state;
  state.tokens = 8;
  state.mean_step = 0.1;
  SourceForcing forcing;
  forcing.source = 2;
  forcing.own = 5;
  forcing.outlet = 3;
  forcing.forward = {INFINITY, INFINITY, INFINITY, INFINITY, 4, 2, 1, 0.5};
  state.forcing = {forcing};
  const InfluenceTheory theory = end_to_end_envelope_of(state);
  EXPECT_EQ(theory.law, TheoryLaw::fading_state);
  EXPECT_TRUE(theory.is_absolute);
  EXPECT_NEAR(theory.parameter, 15, 1e-12);
  EXPECT_TRUE(std::isinf(theory.at(1))) << "the convolution still reads the source";
  EXPECT_NEAR(theory.at(2), 12, 1e-12);
  EXPECT_NEAR(theory.at(5), 1.5, 1e-12);
}

TEST(EndToEnd, AConstantThatGrowsIsNone) {
  RoutingView routing = uniform(0.5, 80);
  routing.forcing = {forcing_of(2, 80, 2, 1)};
  ForcingConstants constants = forcing_constants(routing);
  EXPECT_NEAR(constants.dilution, 2, 1e-12);
  EXPECT_NEAR(constants.logits, 1, 1e-12);
  EXPECT_EQ(constants.own, 1);
  EXPECT_NEAR(constants.dilution_growth, 1, 1e-12);
  EXPECT_EQ(failing_assumption(constants), 0);
  routing.forcing[0].logits[60] *= 2;
  EXPECT_EQ(failing_assumption(forcing_constants(routing)), 22);
  routing.forcing[0].forward[70] *= 3;
  constants = forcing_constants(routing);
  EXPECT_NEAR(constants.dilution_growth, 3, 1e-12);
  EXPECT_EQ(failing_assumption(constants), 21) << "the one that grows faster";
}

TEST(InfluenceTheory, FrozenTimeIsTheSlowestStretch) {
  RoutingView state;
  for (const double rate : {9.0, 1.0, 0.5, 0.25, 0.25, 1.0}) state.decay.push_back(std::exp(-rate));
  EXPECT_NEAR(slowest_rate(state, 2), 0.25, 1e-12);
  EXPECT_NEAR(slowest_rate(state, 3), 1.0 / 3, 1e-12);
  EXPECT_NEAR(slowest_rate(state, 5), 0.6, 1e-12) << "the first token has nothing to keep";
  EXPECT_TRUE(std::isnan(slowest_rate(state, 6)));
}

TEST(Freeze, TheSlowestHeadAndStretchBoundTheWeights) {
  RoutingView state;
  state.tokens = 5;
  state.mean_step = 0.1;
  state.accumulated = {{0, 1, 1.25, 1.5, 3}, {0, 2, 4, 6, 8}};
  state.weights.assign(2, std::vector<float>(25, std::nanf("")));
  for (std::size_t h = 0; h < 2; ++h) {
    for (std::size_t t = 0; t < 5; ++t) {
      for (std::size_t tau = 0; tau <= t; ++tau)
        state.weights[h][t * 5 + tau] =
            static_cast<float>((t == 3 ? 2 : 1) * std::exp(state.accumulated[h][tau] - state.accumulated[h][t]));
    }
  }
  state.min_accumulated = min_accumulated(state);
  state.largest_factor = largest_factor(state);
  const std::vector<double> expected{0, 0.25, 0.5, 1.5, 3};
  ASSERT_EQ(state.min_accumulated.size(), 5u);
  for (std::size_t lag = 0; lag < 5; ++lag) EXPECT_NEAR(state.min_accumulated[lag], expected[lag], 1e-15) << lag;
  EXPECT_NEAR(state.largest_factor, 2, 1e-6);
  const int sources[] = {0};
  const InfluenceTheory bound = fixed_envelope_of(state, sources);
  EXPECT_EQ(bound.law, TheoryLaw::freeze_envelope);
  EXPECT_TRUE(bound.is_absolute);
  for (int lag = 1; lag < 5; ++lag) {
    EXPECT_NEAR(bound.at(lag), 2 * std::exp(-expected[static_cast<std::size_t>(lag)]), 1e-5);
    EXPECT_LE((state.weights[0][lag * 5] + state.weights[1][lag * 5]) / 2, bound.at(lag));
  }
}

TEST(PositionRecovery, IsTheShareThatNoiseLeavesNearest) {
  const std::vector<double> code{3, 1, 2};  // gaps of 1, in any order
  const double deviation = 0.5, stays = 0.5 * std::erf(0.5 / (deviation * std::sqrt(2.0)));
  EXPECT_NEAR(recovered_positions(code, deviation), (2 * (0.5 + stays) + 2 * stays) / 3, 1e-14);
  EXPECT_NEAR(recovered_positions(code, 1e-3), 1, 1e-12);
  EXPECT_NEAR(recovered_positions(std::vector<double>{5, 5}, 1e-9), 0.5, 1e-12) << "equal values are guessed";
  EXPECT_TRUE(std::isnan(recovered_positions({}, 1)));
}

}  // namespace
}  // namespace afterglow
