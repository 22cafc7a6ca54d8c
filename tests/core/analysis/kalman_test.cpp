// Filters against their closed forms: the ridge solution, the information form, plain loops.
#include "core/analysis/solvers/kalman.h"

#include <gtest/gtest.h>

#include "tests/core/analysis/plain_matrix.h"

namespace afterglow {
namespace {

constexpr int tokens = 23, key_width = 5, value_width = 3;

PairSequence random_pairs(std::uint64_t seed, int decays) {
  Random random(seed);
  PairSequence pairs;
  pairs.tokens = tokens;
  pairs.keys = random_matrix(random, tokens, key_width).values;
  pairs.queries = random_matrix(random, tokens, key_width).values;
  pairs.values = random_matrix(random, tokens, value_width).values;
  for (int t = 0; t < tokens; ++t) pairs.noise.push_back(0.2 + std::abs(random.normal()));
  for (int i = 0; i < tokens * decays; ++i) pairs.log_decay.push_back(-0.3 * std::abs(random.normal()));
  pairs.ridge = 0.7;
  return pairs;
}

PlainMatrix column_of(const std::vector<double>& rows, int width, int t) {
  return {width, 1, std::span(rows).subspan(static_cast<std::size_t>(t * width), static_cast<std::size_t>(width))};
}
PlainMatrix key(const PairSequence& pairs, int t) { return column_of(pairs.keys, key_width, t); }
PlainMatrix value(const PairSequence& pairs, int t) { return column_of(pairs.values, value_width, t); }

void expect_state(const FilterRun& run, const PlainMatrix& S) {
  ASSERT_EQ(run.state.size(), S.values.size());
  for (std::size_t i = 0; i < S.values.size(); ++i) EXPECT_NEAR(run.state[i], S.values[i], 1e-10) << name_of(run.kind);
}

/// The state of any filter whose gain `gain_of(t, A)` is known, A the decays of the channels.
template <class Gain>
PlainMatrix recursion(const PairSequence& pairs, const Gain& gain_of) {
  PlainMatrix S(key_width, value_width);
  for (int t = 0; t < tokens; ++t) {
    PlainMatrix A = identity(key_width);
    const std::size_t channels = pairs.log_decay.size() / tokens;
    for (int i = 0; i < key_width && channels > 0; ++i) {
      const std::size_t channel = channels == 1 ? 0 : static_cast<std::size_t>(i);
      A(i, i) = std::exp(pairs.log_decay[static_cast<std::size_t>(t) * channels + channel]);
    }
    const PlainMatrix predicted = A * S,
                      innovation = transposed(value(pairs, t)) - transposed(key(pairs, t)) * predicted;
    S = predicted + gain_of(t, A) * innovation;
  }
  return S;
}

TEST(Kalman, OfAStateThatStandsStillIsTheRidgeSolution) {
  const PairSequence pairs = random_pairs(1, 0);
  PlainMatrix H = pairs.ridge * identity(key_width), U(key_width, value_width);
  for (int t = 0; t < tokens; ++t) {
    const double weight = 1 / pairs.noise[static_cast<std::size_t>(t)];
    H = H + weight * (key(pairs, t) * transposed(key(pairs, t)));
    U = U + weight * (key(pairs, t) * transposed(value(pairs, t)));
  }
  expect_state(run_filter(FilterKind::kalman, pairs), inverse_of(H) * U);
  expect_state(run_filter(FilterKind::gka, pairs), inverse_of(H) * U);
}

TEST(Kalman, OfAFadingStateFollowsTheInformationForm) {
  for (const int decays : {1, key_width}) {
    const PairSequence pairs = random_pairs(2, decays);
    PlainMatrix sigma = (1 / pairs.ridge) * identity(key_width);
    const PlainMatrix S = recursion(pairs, [&](int t, const PlainMatrix& A) {
      const double weight = 1 / pairs.noise[static_cast<std::size_t>(t)];
      const PlainMatrix predicted = A * sigma * A + identity(key_width);
      sigma = inverse_of(inverse_of(predicted) + weight * (key(pairs, t) * transposed(key(pairs, t))));
      return weight * (sigma * key(pairs, t));
    });
    expect_state(run_filter(FilterKind::fading_kalman, pairs), S);
  }
}

TEST(Kalman, TakesAnyProcessNoiseWithAndWithoutDecay) {
  const PairSequence pairs = random_pairs(9, key_width);
  for (const double noise : {0.0, 0.03, 2.0}) {
    for (const bool fades : {false, true}) {
      PairSequence model = pairs;
      if (!fades) model.log_decay.clear();
      PlainMatrix sigma = (1 / pairs.ridge) * identity(key_width);
      const PlainMatrix S = recursion(model, [&](int t, const PlainMatrix& A) {
        const double weight = 1 / pairs.noise[static_cast<std::size_t>(t)];
        const PlainMatrix predicted = A * sigma * A + noise * identity(key_width);
        sigma = inverse_of(inverse_of(predicted) + weight * (key(pairs, t) * transposed(key(pairs, t))));
        return weight * (sigma * key(pairs, t));
      });
      expect_state(run_exact_filter(fades, noise, pairs), S);
    }
  }
  EXPECT_EQ(run_exact_filter(false, 0, pairs).state, run_filter(FilterKind::kalman, pairs).state);
  EXPECT_EQ(run_exact_filter(true, 1, pairs).state, run_filter(FilterKind::fading_kalman, pairs).state);
}

TEST(Kalman, MuchProcessNoiseLeavesTheLastPairsAlone) {
  const PairSequence pairs = random_pairs(10, 0);
  const double noises[] = {1e-6, 10};
  const NoiseSweep sweep = sweep_process_noise(false, noises, pairs);
  ASSERT_EQ(sweep.all.size(), 2u);
  const std::vector<double> recall = run_exact_filter(false, 10, pairs).recall;
  double all = 0, last = 0;
  for (const double error : recall) all += error / tokens;
  for (int age = 1; age <= 3; ++age) last += recall[tokens - static_cast<std::size_t>(age)] / 3;
  EXPECT_NEAR(sweep.all[1], all, 1e-12);
  EXPECT_NEAR(sweep.last[1], last, 1e-12) << "an eighth of 23, rounded up";
  EXPECT_LT(sweep.last[1], sweep.last[0]);
  EXPECT_GT(sweep.all[1], sweep.all[0]);
}

TEST(Kalman, DeltaRulesHoldTheCovarianceAtOne) {
  const PairSequence pairs = random_pairs(3, key_width);
  const auto gain = [&](int t, const PlainMatrix& P) {
    const PlainMatrix read = P * key(pairs, t);
    const double total = (transposed(key(pairs, t)) * read)(0, 0) + pairs.noise[static_cast<std::size_t>(t)];
    return (1 / total) * read;
  };
  expect_state(run_filter(FilterKind::kda, pairs),
               recursion(pairs, [&](int t, const PlainMatrix& A) { return gain(t, A * A + identity(key_width)); }));
  PairSequence still = pairs;
  still.log_decay.clear();
  const PlainMatrix plain = recursion(still, [&](int t, const PlainMatrix&) { return gain(t, identity(key_width)); });
  expect_state(run_filter(FilterKind::deltanet, still), plain);
  expect_state(run_filter(FilterKind::deltanet, pairs), plain);

  PairSequence of_head = random_pairs(4, 1);
  const PlainMatrix gated = recursion(of_head, [&](int t, const PlainMatrix& A) {
    const PlainMatrix read = (A * A + identity(key_width)) * key(of_head, t);
    const double total = (transposed(key(of_head, t)) * read)(0, 0) + of_head.noise[static_cast<std::size_t>(t)];
    return (1 / total) * read;
  });
  expect_state(run_filter(FilterKind::gated_deltanet, of_head), gated);
  expect_state(run_filter(FilterKind::kda, of_head), gated);
}

TEST(Kalman, GatedKalmaNetWeighsPairsByTheirAge) {
  PairSequence pairs = random_pairs(5, 1);
  pairs.ridge = 0;
  pairs.strength = 0.05;
  PlainMatrix H(key_width, key_width), U(key_width, value_width);
  for (int t = 0; t < tokens; ++t) {
    const double kept = std::exp(pairs.log_decay[static_cast<std::size_t>(t)]),
                 weight = 1 / pairs.noise[static_cast<std::size_t>(t)];
    H = kept * H + weight * (key(pairs, t) * transposed(key(pairs, t)));
    U = kept * U + weight * (key(pairs, t) * transposed(value(pairs, t)));
  }
  const PlainMatrix S = inverse_of(H + (pairs.strength * length_of(H.values)) * identity(key_width)) * U;
  const FilterRun run = run_filter(FilterKind::gka, pairs);
  expect_state(run, S);
  const PlainMatrix missed = value(pairs, 7) - transposed(S) * key(pairs, 7);
  EXPECT_NEAR(run.recall[7], length_of(missed.values) / length_of(value(pairs, 7).values), 1e-10);
}

TEST(Kalman, WritesTheShareOfTheInnovationThatItSays) {
  const PairSequence pairs = random_pairs(6, 0);
  for (const FilterKind kind : {FilterKind::kalman, FilterKind::deltanet}) {
    PairSequence shorter = pairs;
    shorter.tokens = tokens - 1;
    for (auto* rows : {&shorter.keys, &shorter.queries}) rows->resize((tokens - 1) * key_width);
    shorter.values.resize((tokens - 1) * value_width);
    shorter.noise.resize(tokens - 1);
    const FilterRun before = run_filter(kind, shorter), after = run_filter(kind, pairs);
    const auto error = [&](const FilterRun& run) {
      const PlainMatrix S(key_width, value_width, run.state);
      return length_of((value(pairs, tokens - 1) - transposed(S) * key(pairs, tokens - 1)).values);
    };
    EXPECT_NEAR(error(after) / error(before), 1 - after.written.back(), 1e-10) << name_of(kind);
    EXPECT_EQ(after.alignment.size(), static_cast<std::size_t>(tokens));
  }
  for (const double cosine : run_filter(FilterKind::deltanet, pairs).alignment) EXPECT_NEAR(cosine, 1, 1e-12);
}

TEST(Kalman, UncertaintyIsTheInverseOfWhatWasSeenAndNeverGrows) {
  const PairSequence pairs = random_pairs(7, 0);
  const Uncertainty of = uncertainty(FilterKind::kalman, pairs, tokens);
  ASSERT_EQ(of.tokens.size(), static_cast<std::size_t>(tokens));
  PlainMatrix H = pairs.ridge * identity(key_width);
  for (int t = 0; t < tokens; ++t) {
    H = H + (1 / pairs.noise[static_cast<std::size_t>(t)]) * (key(pairs, t) * transposed(key(pairs, t)));
    const PlainMatrix sigma = inverse_of(H);
    double trace = 0;
    for (int i = 0; i < key_width; ++i) trace += sigma(i, i);
    const auto at = static_cast<std::size_t>(t);
    EXPECT_NEAR(of.mean[at], trace / key_width, 1e-10);
    EXPECT_NEAR(of.largest[at], plain_norm(sigma), 1e-10);
    EXPECT_NEAR(of.smallest[at], 1 / plain_norm(H), 1e-10);
    if (t > 0) {
      EXPECT_LE(of.largest[at], of.largest[at - 1] * (1 + 1e-12));
      EXPECT_LE(of.mean[at], of.mean[at - 1] * (1 + 1e-12));
    }
  }
  EXPECT_EQ(uncertainty(FilterKind::kalman, pairs, 4).tokens.back(), tokens - 1);
}

TEST(Kalman, RecursionKeepsTheErrorsOfItsWorstTokenAndTheSolveDoesNot) {
  constexpr int many = 300, width = 16;
  Random random(8);
  PairSequence pairs;
  pairs.tokens = many;
  pairs.keys = random_matrix(random, many, width).values;
  pairs.queries = random_matrix(random, many, width).values;
  pairs.values = random_matrix(random, many, 1).values;
  pairs.noise.assign(many, 1.0);
  pairs.ridge = 1;
  const DriftRun sound = drift(pairs, Arithmetic::fp64, 1, 12);
  for (const double error : sound.recursion) EXPECT_LT(error, 1e-11);
  for (const double error : sound.solve) EXPECT_LT(error, 1e-11);
  for (const Arithmetic arithmetic : {Arithmetic::bf16, Arithmetic::fp32}) {
    const double unit = 1 / inverse_unit(arithmetic);
    const DriftRun strong = drift(pairs, arithmetic, 10, 12), weak = drift(pairs, arithmetic, 1e-4, 12);
    EXPECT_LT(strong.recursion.back(), 10 * unit) << name_of(arithmetic);
    EXPECT_LT(strong.solve.back(), 10 * unit) << name_of(arithmetic);
    EXPECT_LT(weak.solve.back(), 10 * unit) << name_of(arithmetic);
    EXPECT_GT(weak.recursion.back(), 20 * weak.solve.back()) << name_of(arithmetic);
    EXPECT_NEAR(weak.ridge, 1e-4, 1e-12);
  }
}

TEST(Kalman, UnsoundSequencesHaveNoAnswer) {
  PairSequence pairs = random_pairs(9, 0);
  pairs.noise[3] = 0;
  EXPECT_TRUE(run_filter(FilterKind::kalman, pairs).state.empty());
  EXPECT_TRUE(uncertainty(FilterKind::kalman, pairs, 4).tokens.empty());
  EXPECT_TRUE(drift(pairs, Arithmetic::fp32, 1, 4).tokens.empty());
  pairs = random_pairs(9, 2);  // neither a decay a token nor one a channel
  EXPECT_FALSE(is_sound(pairs));
  EXPECT_FALSE(is_sound({}));
}

}  // namespace
}  // namespace afterglow
