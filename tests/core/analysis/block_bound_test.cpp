// Proposition 25's constants against closed forms and against the worst of many tokens.
#include "core/analysis/influence/block_bound.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "core/random/random.h"

namespace afterglow {
namespace {

// One channel, no norm: a = 2x + 1, g = 3x, v = 0.5 u + 0.25, y = x + 4 s g + 0.125, all in numbers.
SessaNorms one_channel() {
  SessaNorms norms;
  norms.signal = {2, 1};
  norms.gate = {3, 0};
  norms.values = {{0.5, 0.25}};
  norms.gain = {0, 0.5};
  norms.most_gain = 0.8;
  norms.out = {4, 0.125};
  return norms;
}

TEST(SessaReach, IsTheClosedFormOfOneChannel) {
  const SessaReach reach = sessa_reach(one_channel(), 2);
  EXPECT_DOUBLE_EQ(reach.signal, 5);
  EXPECT_DOUBLE_EQ(reach.gate, 6);
  EXPECT_DOUBLE_EQ(reach.forward, 2.75);
  EXPECT_DOUBLE_EQ(reach.gain, 0.8 * std::tanh(0.5));
  EXPECT_DOUBLE_EQ(reach.solution, 2.75 / (1 - 0.8 * std::tanh(0.5)));
  EXPECT_DOUBLE_EQ(reach.answer, 2 + 4 * 6 * reach.solution + 0.125);
  SessaNorms plain = one_channel();
  plain.most_gain = 0;
  EXPECT_DOUBLE_EQ(sessa_reach(plain, 2).solution, 2.75) << "no feedback";
  plain.most_gain = 1e3;
  EXPECT_EQ(sessa_reach(plain, 2).answer, std::numeric_limits<double>::infinity());
}

// A constant positive signal with a constant gain comes as near to it as time allows: s grows to f / (1 - rho).
TEST(SessaReach, IsReachedInTheLimitByAConstantSignal) {
  const SessaNorms norms = one_channel();
  const SessaReach reach = sessa_reach(norms, 2);
  double sum = 0, s = 0;
  for (int t = 0; t < 20000; ++t) {
    s = reach.forward + (t > 0 ? reach.gain * sum / t : 0.0);  // uniform rows
    sum += s;
    EXPECT_LE(s, reach.solution * (1 + 1e-12));
  }
  EXPECT_GT(s, 0.99 * reach.solution);
}

TEST(SessaReach, HeadsMixTheirOwnValues) {
  SessaNorms norms = one_channel();
  norms.values = {{0.5, 0.25}, {1, 0}};
  norms.joined = 3;
  EXPECT_DOUBLE_EQ(sessa_reach(norms, 2).forward, 3 * std::hypot(2.75, 5));
}

TEST(NormBound, IsReachedByTheTokenThatIsItsOwnDeviation) {
  const NormNorms norm{4, 2, 0.5, 0.1};
  // The token (r/2)(1, -1, 1, -1) has mean 0 and length r; the norm with equal weights 2 leaves 2 r / sqrt(r^2/4 +
  // eps).
  for (const double radius : {0.01, 1.0, 50.0}) {
    const double unit = radius / std::sqrt(radius * radius / 4 + 0.1);
    EXPECT_DOUBLE_EQ(norm_bound(norm, radius), 2 * unit + 0.5);
  }
  EXPECT_DOUBLE_EQ(norm_bound(norm, 0), 0.5);
  EXPECT_DOUBLE_EQ(norm_bound({}, 7), 7) << "the identity in its place";
  EXPECT_LT(norm_bound(norm, 1e9), 2 * 2 + 0.5 + 1e-9) << "the square root of the width";
  // No token within the radius exceeds it.
  Random random(3, weights_stream, 0);
  double most = 0;
  for (int trial = 0; trial < 2000; ++trial) {
    std::vector<double> x(4);
    double square = 0, mean = 0, deviation = 0, answer = 0;
    for (double& value : x) square += std::pow(value = random.normal(), 2);
    for (double& value : x) mean += (value /= std::sqrt(square)) / 4;
    for (const double value : x) deviation += std::pow(value - mean, 2) / 4;
    for (const double value : x) answer += std::pow(2 * (value - mean) / std::sqrt(deviation + 0.1), 2);
    most = std::max(most, std::sqrt(answer));
  }
  EXPECT_LE(most + 0.5, norm_bound(norm, 1) * (1 + 1e-12));
  EXPECT_GT(most + 0.5, 0.99 * norm_bound(norm, 1));
}

}  // namespace
}  // namespace afterglow
