// Token weights: the layers' outputs, computed by their definitions, come out as sums of weighted values.
#include "core/analysis/attention/token_weights.h"

#include <gtest/gtest.h>

#include "tests/core/analysis/plain_matrix.h"

namespace afterglow {
namespace {

/// The statistics, operators and answers of every group of one SKA head, by the definition and with explicit inverses.
struct PlainSka {
  int tokens, r, P;
  PlainMatrix keys, queries, values, y;
  std::vector<double> L, A_w, m, sigma;
  std::vector<std::uint8_t> mask;
  double gamma = 1.3, eta = 1.5;
  int power = 2;

  PlainSka(std::uint64_t seed, int T, int rank, int width) : tokens(T), r(rank), P(width) {
    Random random(seed);
    keys = 3.0 * random_matrix(random, T, r);
    queries = random_matrix(random, T, r);
    values = random_matrix(random, T, P);
    y = PlainMatrix(T, P);
  }
  bool contributes(int s) const { return mask.empty() || mask[static_cast<std::size_t>(s)]; }
  PlainMatrix row(const PlainMatrix& a, int t) const {
    return {a.columns, 1, std::span(a.values).subspan(static_cast<std::size_t>(t) * a.columns, a.columns)};
  }
  /// Statistics over positions [0, end), with the key scale over [0, scale_end); answers queries [first, last).
  void answer(int end, int scale_end, int first, int last) {
    double scale = 1e-6;
    for (int s = 0; s < scale_end; ++s) scale = std::max(scale, contributes(s) ? length_of(row(keys, s).values) : 0.0);
    PlainMatrix G(r, r), M(r, r), C(P, r);
    for (int s = 0; s < end; ++s) {
      if (!contributes(s)) continue;
      const PlainMatrix z = (1 / scale) * row(keys, s);
      G = G + z * transposed(z);
      C = C + row(values, s) * transposed(z);
      if (s > 0 && contributes(s - 1)) M = M + (1 / scale) * (z * transposed(row(keys, s - 1)));
    }
    const PlainMatrix gram = G + 1e-3 * identity(r), factor = cholesky_of(gram), inverse = inverse_of(factor);
    const PlainMatrix whitened = inverse * M * transposed(inverse);
    const double norm = plain_norm(whitened);
    const PlainMatrix A = (gamma / std::max(norm, 1.0)) * whitened;
    const PlainMatrix map = eta * (C * inverse_of(gram) * factor * power_of(A, power) * inverse);
    for (int t = first; t < last; ++t) {
      const PlainMatrix output = map * ((1 / scale) * row(queries, t));
      for (int p = 0; p < P; ++p) y(t, p) = end == 0 ? 0.0 : output(p, 0);
    }
    L.insert(L.end(), factor.values.begin(), factor.values.end());
    A_w.insert(A_w.end(), whitened.values.begin(), whitened.values.end());
    m.push_back(scale);
    sigma.push_back(norm);
  }
  SkaTokens as_input(int piece, bool exclusive) const {
    SkaTokens input;
    input.tokens = tokens;
    input.rank = r;
    input.piece = piece;
    input.exclusive = exclusive;
    input.keys = keys.values;
    input.queries = queries.values;
    input.L = L;
    input.A_w = A_w;
    input.m = m;
    input.sigma = sigma;
    input.gamma = gamma;
    input.power = power;
    input.mask = mask;
    return input;
  }
  void expect_outputs(const WeightMatrix& weights) const {
    ASSERT_EQ(weights.size(), static_cast<std::size_t>(tokens) * tokens);
    const PlainMatrix sum = eta * (PlainMatrix(tokens, tokens, weights) * values);
    const double size = 1 + length_of(y.values);
    for (std::size_t i = 0; i < y.values.size(); ++i) EXPECT_NEAR(sum.values[i], y.values[i], 1e-9 * size);
  }
};

TEST(TokenWeights, SkaPrefixForEveryPower) {
  for (const int K : {0, 1, 2, 5}) {
    PlainSka one(31, 20, 4, 3);
    one.power = K;
    one.answer(20, 20, 0, 20);
    one.expect_outputs(ska_token_weights(one.as_input(20, false)));
  }
}

TEST(TokenWeights, SkaOnlyMaskedPositionsSpeak) {
  PlainSka one(32, 21, 4, 3);
  for (int t = 0; t < 21; ++t) one.mask.push_back(t % 3 != 1);
  one.answer(21, 21, 0, 21);
  const WeightMatrix weights = ska_token_weights(one.as_input(21, false));
  one.expect_outputs(weights);
  for (int t = 0; t < 21; ++t) EXPECT_EQ(weights[t * 21 + 4], 0.0);
}

TEST(TokenWeights, SkaChunksSeeWhatCameBefore) {
  PlainSka one(33, 21, 4, 3);
  for (int first = 0; first < 21; first += 8) one.answer(first, 21, first, std::min(21, first + 8));
  const WeightMatrix weights = ska_token_weights(one.as_input(8, true));
  one.expect_outputs(weights);
  for (int t = 0; t < 21; ++t) {
    for (int s = t / 8 * 8; s < 21; ++s) EXPECT_EQ(weights[t * 21 + s], 0.0);
  }
}

TEST(TokenWeights, SkaRecurrentIsCausal) {
  PlainSka one(34, 13, 5, 2);
  for (int t = 0; t < 13; ++t) one.answer(t + 1, t + 1, t, t + 1);
  const WeightMatrix weights = ska_token_weights(one.as_input(1, false));
  one.expect_outputs(weights);
  EXPECT_EQ(weights[3 * 13 + 4], 0.0);
  EXPECT_NE(weights[3 * 13 + 3], 0.0);
}

TEST(TokenWeights, SkaWithOrthogonalKeysLooksUpTheOneToken) {
  // Ridge regression (K = 0) of unit keys: the weight of the matching token is 1 / (1 + eps), of all others 0.
  PlainSka one(35, 4, 4, 1);
  one.keys = one.queries = identity(4);
  one.power = 0;
  one.answer(4, 4, 0, 4);
  const WeightMatrix weights = ska_token_weights(one.as_input(4, false));
  for (int i = 0; i < 16; ++i) EXPECT_NEAR(weights[i], i % 5 == 0 ? 1 / 1.001 : 0.0, 1e-12);
}

TEST(TokenWeights, LinearAttentionIsTheRunningSum) {
  Random random(37);
  const int T = 11, D = 3;
  const PlainMatrix K = random_matrix(random, T, D), Q = random_matrix(random, T, D), V = random_matrix(random, T, 2);
  const PlainMatrix y = PlainMatrix(T, T, linear_token_weights(K.values, Q.values, T, 0.25)) * V;
  PlainMatrix state(2, D);
  for (int t = 0; t < T; ++t) {
    for (int p = 0; p < 2; ++p) {
      double expected = 0;
      for (int i = 0; i < D; ++i) {
        state(p, i) += V(t, p) * K(t, i);
        expected += 0.25 * state(p, i) * Q(t, i);
      }
      EXPECT_NEAR(y(t, p), expected, 1e-13);
    }
  }
}

TEST(TokenWeights, Mamba2IsTheRecurrence) {
  Random random(38);
  const int T = 23, N = 4;
  const PlainMatrix B = random_matrix(random, T, N), C = random_matrix(random, T, N), x = random_matrix(random, T, 2);
  std::vector<double> dt, cumulative;
  for (int t = 0; t < T; ++t) {
    dt.push_back(0.1 + random.uniform());
    cumulative.push_back((t ? cumulative.back() : 0.0) - 0.7 * dt.back());
  }
  const PlainMatrix y = PlainMatrix(T, T, mamba2_token_weights(B.values, C.values, dt, cumulative, T)) * x;
  PlainMatrix h(2, N);
  for (int t = 0; t < T; ++t) {
    for (int p = 0; p < 2; ++p) {
      double expected = 0;
      for (int n = 0; n < N; ++n) {
        h(p, n) = std::exp(-0.7 * dt[t]) * h(p, n) + dt[t] * x(t, p) * B(t, n);
        expected += h(p, n) * C(t, n);
      }
      EXPECT_NEAR(y(t, p), expected, 1e-12);
    }
  }
}

TEST(TokenWeights, Mamba3IsTheRecurrence) {
  Random random(40);
  const int T = 23, N = 4;
  const PlainMatrix k = random_matrix(random, T, N), q = random_matrix(random, T, N), v = random_matrix(random, T, 2);
  std::vector<double> dt, lag, cumulative;
  for (int t = 0; t < T; ++t) {
    dt.push_back(random.uniform());
    lag.push_back(random.uniform());
    cumulative.push_back((t ? cumulative.back() : 0.0) - random.uniform());
  }
  const PlainMatrix y = PlainMatrix(T, T, trapezoid_token_weights(k.values, q.values, dt, lag, cumulative, T)) * v;
  PlainMatrix S(2, N);
  for (int t = 0; t < T; ++t) {
    const double decay = std::exp(cumulative[t] - (t ? cumulative[t - 1] : 0.0));
    for (int p = 0; p < 2; ++p) {
      double expected = 0;
      for (int n = 0; n < N; ++n) {
        const double late = t ? lag[t] * v(t - 1, p) * k(t - 1, n) : 0.0;
        S(p, n) = decay * (S(p, n) + late) + dt[t] * v(t, p) * k(t, n);
        expected += S(p, n) * q(t, n);
      }
      EXPECT_NEAR(y(t, p), expected, 1e-12);
    }
  }
}

TEST(TokenWeights, AwkwardInput) {
  const std::vector<double> one = {1.0}, nan = {NAN}, huge = {1e200}, two = {1, 1};
  EXPECT_TRUE(ska_token_weights({}).empty());
  EXPECT_TRUE(linear_token_weights({}, {}, 0, 1).empty());
  EXPECT_TRUE(linear_token_weights(one, two, 1, 1).empty());
  EXPECT_TRUE(linear_token_weights(nan, one, 1, 1).empty());
  EXPECT_TRUE(linear_token_weights(huge, huge, 1, 1).empty()) << "the score is not finite";
  EXPECT_TRUE(linear_token_weights(one, one, -1, 1).empty());
  EXPECT_TRUE(mamba2_token_weights(one, one, {}, one, 1).empty());
  EXPECT_TRUE(mamba2_token_weights(one, one, nan, one, 1).empty());
  EXPECT_EQ(mamba2_token_weights(one, one, one, std::vector<double>{-1e300}, 1), one);
  EXPECT_TRUE(trapezoid_token_weights(one, one, one, {}, one, 1).empty());
  EXPECT_TRUE(trapezoid_token_weights(one, one, one, nan, one, -1).empty());
  EXPECT_EQ(trapezoid_token_weights(one, one, one, nan, one, 1), one) << "nothing stands before the first token";
  PlainSka small(39, 1, 1, 1);
  small.answer(1, 1, 0, 1);
  small.expect_outputs(ska_token_weights(small.as_input(1, false)));
  const SkaTokens sound = small.as_input(1, false);
  SkaTokens broken = sound;
  broken.keys = nan;
  EXPECT_TRUE(ska_token_weights(broken).empty());
  broken = sound;
  broken.L = two;
  EXPECT_TRUE(ska_token_weights(broken).empty());
  broken = sound;
  broken.piece = 0;
  EXPECT_TRUE(ska_token_weights(broken).empty());
  const std::vector<double> zero = {0.0};
  broken = sound;
  broken.L = zero;
  EXPECT_TRUE(ska_token_weights(broken).empty()) << "a singular factor";
}

}  // namespace
}  // namespace afterglow
