// Identities of Spectral Koopman Attention: ridge regression, the modes against each other, the recurrent state over
// long sequences, and what happens when a factorisation needs help.
#include "core/layers/ska.h"

#include <gmock/gmock.h>

#include <cmath>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>

#include "core/io/error.h"
#include "core/random/random.h"
#include "tests/core/layers/captured_small_layer.h"
#include "tests/support/host_values.h"
#include "tests/support/op_case.h"

namespace afterglow::testing {
namespace {

using Mode = RidgeConfig::Mode;

/// The inputs of one head: keys and queries [T,r], values [T,P].
struct Sequence {
  std::int64_t tokens, r, width;
  Values z, q, v;

  Sequence(std::int64_t tokens_, std::int64_t r_, std::int64_t width_, std::uint64_t seed)
      : tokens(tokens_), r(r_), width(width_) {
    Random random(seed);
    const auto draw = [&](std::int64_t count) {
      Values values(static_cast<std::size_t>(count));
      for (double& value : values) value = static_cast<float>(random.normal());
      return values;
    };
    z = draw(tokens * r);
    q = draw(tokens * r);
    v = draw(tokens * width);
  }
  Sequence first(std::int64_t count) const {
    Sequence part = *this;
    part.tokens = count;
    part.z.resize(static_cast<std::size_t>(count * r));
    part.q.resize(static_cast<std::size_t>(count * r));
    part.v.resize(static_cast<std::size_t>(count * width));
    return part;
  }
};

class SkaCore : public ::testing::Test {
 protected:
  SkaCore() {
    config_.ridge = 1e-3;
    tape_.begin(false);
  }
  RidgeVars vars(const Sequence& s) {
    RidgeVars in;
    in.z = tape_.constant(host_.f64({1, s.tokens, 1, s.r}, s.z));
    in.q = tape_.constant(host_.f64({1, s.tokens, 1, s.r}, s.q));
    in.v = tape_.constant(host_.f64({1, s.tokens, 1, s.width}, s.v));
    in.eta = tape_.constant(host_.f64({1}, {1.3}));
    in.gamma_raw = tape_.constant(host_.f64({1}, {0.4}));
    return in;
  }
  /// Outputs [T,P].
  Values answers(const Sequence& s, Mode mode, const std::vector<std::uint8_t>& mask = {}) {
    RidgeConfig config = config_;
    config.mode = mode;
    RidgeVars in = vars(s);
    if (!mask.empty()) {
      in.mask = tape_.scratch({1, s.tokens}, DType::u8);
      backend_->upload(in.mask, mask.data());
    }
    return host_.read<double>(ridge_readout(tape_, config, in, &saved_).value);
  }
  static double length_of(const Values& rows, std::int64_t t, std::int64_t width) {
    double square = 0.0;
    for (std::int64_t i = 0; i < width; ++i) square += rows[t * width + i] * rows[t * width + i];
    return std::sqrt(square);
  }
  static Values row(const Values& y, std::int64_t t, std::int64_t width) {
    return Values(y.begin() + t * width, y.begin() + (t + 1) * width);
  }

  std::unique_ptr<Backend> backend_ = make_cpu_backend(2);
  HostValues host_{*backend_};
  Arena arena_{*backend_};
  Tape tape_{*backend_, arena_};
  RidgeConfig config_;
  RidgeSaved saved_;
};

// y = eta C (G + eps I)^-1 q / m. With q = m times column t of G + eps I the answer must be column t of eta C.
TEST_F(SkaCore, WithoutPowerItIsRidgeRegression) {
  Sequence s(37, 5, 3, 1);
  config_.power = 0;
  double m = 0.0;
  for (std::int64_t t = 0; t < s.tokens; ++t) m = std::max(m, length_of(s.z, t, 5));
  Values gram(25, 0.0), sums(15, 0.0);
  for (std::int64_t t = 0; t < s.tokens; ++t) {
    for (int j = 0; j < 5; ++j) {
      const double key = s.z[t * 5 + j] / m;
      for (int i = 0; i < 5; ++i) gram[i * 5 + j] += s.z[t * 5 + i] / m * key;
      for (int i = 0; i < 3; ++i) sums[i * 5 + j] += s.v[t * 3 + i] * key;
    }
  }
  Values want;
  for (int t = 0; t < 5; ++t) {
    for (int i = 0; i < 5; ++i) s.q[t * 5 + i] = m * (gram[i * 5 + t] + (i == t ? config_.ridge : 0.0));
    for (int i = 0; i < 3; ++i) want.push_back(1.3 * sums[i * 5 + t]);
  }
  const Values y = answers(s, Mode::prefix);
  EXPECT_LE(relative_error(Values(y.begin(), y.begin() + 15), want), 1e-12);
}

TEST_F(SkaCore, WithoutPowerTheOrderOfTokensDoesNotMatter) {
  const Sequence s(21, 4, 2, 2);
  Sequence reversed = s;
  for (std::int64_t t = 0; t < s.tokens; ++t) {
    std::copy_n(s.z.begin() + (s.tokens - 1 - t) * s.r, s.r, reversed.z.begin() + t * s.r);
    std::copy_n(s.v.begin() + (s.tokens - 1 - t) * s.width, s.width, reversed.v.begin() + t * s.width);
  }
  config_.power = 0;
  EXPECT_LE(relative_error(answers(reversed, Mode::prefix), answers(s, Mode::prefix)), 1e-11);
  config_.power = 1;
  EXPECT_GT(relative_error(answers(reversed, Mode::prefix), answers(s, Mode::prefix)), 1e-3);
}

TEST_F(SkaCore, ChunkSeesExactlyWhatPrefixSeesOfTheTokensBefore) {
  const Sequence s(25, 5, 3, 3);
  config_.chunk = 8;
  config_.norm = RidgeConfig::Norm::prefix;
  const Values chunked = answers(s, Mode::chunk);
  Sequence before = s.first(24);
  std::copy_n(s.q.begin() + 24 * s.r, s.r, before.q.begin());
  EXPECT_LE(relative_error(row(chunked, 24, 3), row(answers(before, Mode::prefix), 0, 3)), 1e-12);
  EXPECT_THAT(Values(chunked.begin(), chunked.begin() + 8 * 3), ::testing::Each(0.0));
}

TEST_F(SkaCore, RecurrentEqualsPrefixOfEveryBeginning) {
  const Sequence s(13, 4, 7, 4);
  const Values recurrent = answers(s, Mode::recurrent);
  for (std::int64_t t = 0; t < s.tokens; ++t)
    EXPECT_LE(relative_error(row(recurrent, t, 7), row(answers(s.first(t + 1), Mode::prefix), t, 7)), 1e-11) << t;
}

TEST_F(SkaCore, MaskOfOnesIsPrefix) {
  const Sequence s(37, 5, 3, 5);
  EXPECT_EQ(answers(s, Mode::masked, std::vector<std::uint8_t>(37, 1)), answers(s, Mode::prefix));
}

TEST_F(SkaCore, WhatTheMaskLeavesOutCannotBeSeen) {
  const Sequence s(21, 4, 3, 6);
  std::vector<std::uint8_t> mask(21, 0);
  for (const int t : {2, 3, 4, 9, 15}) mask[t] = 1;
  Sequence changed = s;
  for (std::int64_t t = 0; t < 21; ++t) {
    if (mask[t]) continue;
    for (std::int64_t i = 0; i < 4; ++i) changed.z[t * 4 + i] *= -50.0;
    for (std::int64_t i = 0; i < 3; ++i) changed.v[t * 3 + i] += 7.0;
  }
  EXPECT_EQ(answers(changed, Mode::masked, mask), answers(s, Mode::masked, mask));
}

TEST_F(SkaCore, AMaskNamesTheRolesThatCount) {
  const Sequence s(21, 4, 3, 6);
  std::vector<std::uint8_t> roles(21, 0), facts(21, 0);
  for (const int t : {2, 3, 4, 9, 15}) roles[t] = facts[t] = 1;
  roles[19] = roles[20] = 2;
  const Values of_facts = answers(s, Mode::masked, facts);
  const auto counted = [&](std::uint8_t bits) {
    config_.roles = bits;
    return answers(s, Mode::masked, roles);
  };
  EXPECT_EQ(counted(0b111), answers(s, Mode::prefix));
  EXPECT_EQ(counted(0b010), of_facts);
  // All but the question is the beginning, read by every token.
  Sequence before = s.first(19);
  EXPECT_LE(relative_error(row(counted(0b011), 5, 3), row(answers(before, Mode::prefix), 5, 3)), 1e-12);
  EXPECT_GT(relative_error(counted(0b110), counted(0b010)), 1e-3);
}

// The largest singular value of the whitened operator stays below 1 (Cauchy-Schwarz).
TEST_F(SkaCore, WhitenedOperatorContracts) {
  answers(Sequence(65, 9, 3, 7), Mode::recurrent);
  for (const double sigma : host_.read<double>(saved_.sigma)) EXPECT_LT(sigma, 1.0);
}

class SkaState : public SkaCore {
 protected:
  /// Feeds a sequence token by token in `dtype` and answers the outputs; the state is left in `state_`.
  Values step_through(const Sequence& s, DType dtype) {
    const auto reserve = [&](const Shape& shape) {
      const Tensor tensor = tape_.scratch(shape, dtype);
      backend_->fill(tensor, 0.0);
      return tensor;
    };
    state_ = {reserve({1, 1, s.r, s.r}),
              reserve({1, 1, s.r, s.r}),
              reserve({1, 1, s.width, s.r}),
              reserve({1, 1, s.r}),
              reserve({1, 1}),
              tape_.scratch({backend_->plan(config_, inputs_of(s)).kept}, DType::f64)};
    backend_->fill(state_.factors, 0.0);
    RidgeSaved saved;
    for (Tensor* t : {&saved.L, &saved.A_w}) *t = reserve({1, 1, 1, s.r, s.r});
    saved.F = reserve({1, 1, 1, s.width, s.r});
    for (Tensor* t : {&saved.sigma, &saved.jitter}) *t = reserve({1, 1, 1});
    const auto upload = [&](const Values& values, const Shape& shape) {
      return dtype == DType::f64 ? host_.f64(shape, values)
                                 : host_.f32(shape, std::vector<float>(values.begin(), values.end()));
    };
    const Tensor z = upload(s.z, {s.tokens, s.r}), q = upload(s.q, {s.tokens, s.r});
    const Tensor v = upload(s.v, {s.tokens, s.width}), y = tape_.scratch({s.tokens, s.width}, dtype);
    RidgeInputs in;
    in.eta = upload({1.3}, {1});
    in.gamma_raw = upload({0.4}, {1});
    RidgeConfig config = config_;
    config.mode = Mode::recurrent;
    for (std::int64_t t = 0; t < s.tokens; ++t) {
      in.z = z.at(t).reshaped({1, 1, 1, s.r});
      in.q = q.at(t).reshaped({1, 1, 1, s.r});
      in.v = v.at(t).reshaped({1, 1, 1, s.width});
      if (in_between_) in_between_(t, config);
      backend_->ridge_write_key(in, state_);
      backend_->ridge_write_value(in.v, state_);
      backend_->ridge_answer(config, in, state_, saved, y.at(t).reshaped({1, 1, 1, s.width}));
    }
    return dtype == DType::f64 ? host_.read<double>(y) : as_doubles(host_.read<float>(y));
  }
  static RidgeInputs inputs_of(const Sequence& s) {
    RidgeInputs in;
    in.z.shape = {1, 1, 1, s.r};
    in.v.shape = {1, 1, 1, s.width};
    return in;
  }
  static Values as_doubles(const std::vector<float>& values) { return Values(values.begin(), values.end()); }

  RidgeState state_;
  std::function<void(std::int64_t, RidgeConfig&)> in_between_;  ///< called before each token
};

TEST_F(SkaState, StepsEqualRecurrentModeAtEveryToken) {
  Sequence s(101, 5, 3, 8);
  // Keys that grow from time to time: the state is rescaled again and again.
  for (std::int64_t t = 0; t < s.tokens; ++t)
    for (std::int64_t i = 0; i < s.r; ++i) s.z[t * s.r + i] *= 0.1 + 0.02 * static_cast<double>(t);
  EXPECT_LE(relative_error(step_through(s, DType::f64), answers(s, Mode::recurrent)), 1e-10);
  EXPECT_LE(relative_error(step_through(s, DType::f32), answers(s, Mode::recurrent)), 1e-4);
}

// The factors go on by rank-one updates over thousands of tokens, where the other form factorises at each.
TEST_F(SkaState, FactorsThatAreUpdatedDoNotDrift) {
  for (const auto& [r, width] : {std::pair(1, 3), std::pair(7, 1), std::pair(24, 33)}) {
    SCOPED_TRACE(r);
    Sequence s(2000, r, width, 8);
    for (std::int64_t i = 0; i < r; ++i) s.z[i] *= 100;  // m does not grow any more
    EXPECT_LE(relative_error(step_through(s, DType::f64), answers(s, Mode::recurrent)), 1e-10);
    const Values factors = host_.read<double>(state_.factors), G = host_.read<double>(state_.G);
    EXPECT_EQ(factors[0], 1) << "they are not computed anew";
    const double* L = factors.data() + 2;  // by columns
    Values square(G.size(), 0.0);
    for (int i = 0; i < r * r; ++i) {
      for (int k = 0; k < r; ++k) square[i] += L[k * r + i / r] * L[k * r + i % r];
      if (i % r == i / r) square[i] -= config_.ridge;
    }
    EXPECT_LE(relative_error(square, G), 1e-10);
    EXPECT_LE(relative_error(step_through(s, DType::f32), answers(s, Mode::recurrent)), 1e-4);
  }
}

TEST_F(SkaState, FactorsFollowTheRidgeAndAreComputedAnewWhereTheyAreZero) {
  Sequence s(40, 5, 3, 14);
  for (std::int64_t i = 0; i < 5; ++i) s.z[i] *= 100;
  const Values before = answers(s, Mode::recurrent);
  in_between_ = [&](std::int64_t t, RidgeConfig& config) { config.ridge = t < 20 ? 1e-3 : 0.3; };
  const Values got = step_through(s, DType::f64);
  config_.ridge = 0.3;
  const Values after = answers(s, Mode::recurrent);
  EXPECT_LE(relative_error(row(got, 19, 3), row(before, 19, 3)), 1e-10);
  EXPECT_LE(relative_error(row(got, 39, 3), row(after, 39, 3)), 1e-10);
  // Zeros make the back end factorise the sums.
  in_between_ = nullptr;
  const Values updated = step_through(s, DType::f64);
  in_between_ = [&](std::int64_t, RidgeConfig&) { backend_->fill(state_.factors, 0.0); };
  EXPECT_LE(relative_error(updated, step_through(s, DType::f64)), 1e-10);
  // Of other sums, from the tenth token on, which nothing has told the factors.
  const auto halved = [&](bool is_told) {
    in_between_ = [&, is_told](std::int64_t t, RidgeConfig&) {
      if (t != 10) return;
      backend_->scale(state_.M, 0.5, {state_.M, false});
      if (is_told) backend_->fill(state_.factors, 0.0);
    };
    return step_through(s, DType::f64);
  };
  EXPECT_GT(relative_error(halved(true), updated), 1e-3);
  EXPECT_LE(relative_error(halved(false), updated), 1e-10) << "so a caller that changes a state must say so";
}

// A factor that has lost its digits is not carried on.
TEST_F(SkaState, FactorsOfAnIllConditionedGramMatrixAreComputedAnew) {
  config_.ridge = 1e-13;
  Sequence s(30, 6, 2, 15);
  for (std::int64_t i = 0; i < 6; ++i) s.z[i] *= 100;
  const Values want = answers(s, Mode::recurrent), got = step_through(s, DType::f64);
  EXPECT_LE(relative_error(row(got, 29, 2), row(want, 29, 2)), 1e-6);
}

TEST_F(SkaState, ZeroKeysLeaveZeroAnswers) {
  Sequence s(3, 2, 2, 9);
  std::fill(s.z.begin(), s.z.end(), 0.0);
  EXPECT_THAT(step_through(s, DType::f32), ::testing::Each(0.0));
}

TEST_F(SkaState, StaysFiniteAndConstantOverAMillionTokens) {
  const Sequence s(1'000'000, 2, 1, 10);
  const Values y = step_through(s, DType::f32);
  EXPECT_TRUE(std::all_of(y.begin(), y.end(), [](double value) { return std::isfinite(value); }));
  const std::size_t bytes =
      state_.G.bytes() + state_.M.bytes() + state_.C.bytes() + state_.previous_key.bytes() + state_.m.bytes();
  EXPECT_EQ(bytes, 4u * (2 * 2 * 2 + 1 * 2 + 2 + 1));
  // A shorter run against float64.
  const Sequence beginning = s.first(20'000);
  const Values exact = step_through(beginning, DType::f64);
  EXPECT_LE(relative_error(Values(y.begin(), y.begin() + 20'000), exact), 2e-3);
}

TEST_F(SkaCore, FailedFactorisationsAreHelpedAndCounted) {
  config_.ridge = 0.0;
  const Sequence s(2, 4, 3, 11);  // two keys cannot span four dimensions
  const Values y = answers(s, Mode::prefix);
  EXPECT_GE(host_.read<double>(saved_.jitter)[0], 1.0);
  EXPECT_TRUE(std::all_of(y.begin(), y.end(), [](double value) { return std::isfinite(value); }));
}

TEST_F(SkaCore, NotANumberComesThroughAndEnds) {
  Sequence s(5, 3, 2, 12);
  s.z[4] = std::nan("");
  const Values y = answers(s, Mode::prefix);
  EXPECT_TRUE(std::any_of(y.begin(), y.end(), [](double value) { return !std::isfinite(value); }));
}

TEST_F(SkaCore, StepRefusesToBeTrained) {
  tape_.begin(true);
  const RidgeVars in = vars(Sequence(1, 2, 2, 13));
  EXPECT_THROW(ridge_answer(tape_, config_, in, {}), Error);
}

nlohmann::json layer_config(const nlohmann::json& more) {
  nlohmann::json config{{"d", 12}, {"H", 2}, {"r", 5}, {"P", 4}, {"mode", "chunk"}, {"chunk", 3}};
  config.update(more);
  return config;
}

// Echo, remark 5: every key and query has length 1, whatever it had.
TEST(SkaAblations, EachTokenIsNormedByItself) {
  const CapturedSmallLayer small("ska", layer_config({{"norm_scope", "token"}}), 11, 12);
  for (const char* name : {"keys", "queries"}) {
    const std::vector<double> rows = small.captured().values(name);
    ASSERT_EQ(rows.size(), 11u * 2 * 5);
    for (std::size_t row = 0; row < rows.size(); row += 5) {
      double square = 0;
      for (std::size_t i = row; i < row + 5; ++i) square += rows[i] * rows[i];
      EXPECT_NEAR(square, 1, 1e-5) << name;
    }
  }
}

/// The layer's answers to one positive input, with parameters given by name.
class SkaOptions : public ::testing::Test {
 protected:
  using Given = std::map<std::string, double>;  ///< every number of a parameter

  struct Answer {
    Values y;
    std::map<std::string, Values> gradients;  ///< of sum y^2 / 2
    std::map<std::string, bool> decays;
  };
  Answer answer(const nlohmann::json& more, const Given& given = {},
                const std::function<void(ParameterStore&)>& change = {}, const SumWeights& painted = {}) {
    ParameterStore store;
    const std::unique_ptr<Layer> layer = make_layer("ska", layer_config(more), ParameterScope(store, ""));
    store.allocate(*backend_, DType::f64);
    store.initialise(5);
    Random random(7);
    Values weights(12 * 8);
    for (double& weight : weights) weight = random.normal();
    backend_->upload(store.find("o_proj.weight")->value, weights.data());
    for (const auto& [name, value] : given) {
      const Parameter& parameter = *store.find(name);
      store.upload(parameter, Values(static_cast<std::size_t>(parameter.shape.elements()), value));
    }
    if (change) change(store);
    Values x(9 * 12);
    for (double& value : x) value = std::abs(random.normal());
    Arena arena(*backend_);
    Tape tape(*backend_, arena);
    tape.begin(painted.empty());
    const Tensor roles = tape.scratch({1, 9}, DType::u8);
    backend_->upload(roles, std::to_array<std::uint8_t>({0, 1, 1, 0, 1, 1, 0, 2, 2}).data());
    const Var in = tape.input(to_device(tape, {1, 9, 12}, DType::f64, x));
    if (!painted.empty()) {
      return {to_host(*backend_, static_cast<Ska&>(*layer).forward_edited(tape, in, roles, {.weights = painted}).value),
              {},
              {}};
    }
    const Var y = layer->forward(tape, in, roles);
    tape.backward(y, y.value);
    Answer result{to_host(*backend_, y.value), {}, {}};
    for (const Parameter& parameter : store.all()) {
      result.gradients[parameter.name] = store.download(parameter.gradient);
      result.decays[parameter.name] = parameter.decay;
    }
    return result;
  }
  static void expect_near(const Values& got, const Values& want, double tolerance) {
    ASSERT_EQ(got.size(), want.size());
    EXPECT_LE(relative_error(got, want), tolerance);
  }

  std::unique_ptr<Backend> backend_ = make_cpu_backend(1);
};

TEST_F(SkaOptions, AGateAtRestHalvesTheAnswerAndAnOpenOneLeavesIt) {
  const Values plain = answer(nlohmann::json::object()).y;
  EXPECT_GT(*std::ranges::max_element(plain), 0.1);
  Values half = plain;
  for (double& value : half) value /= 2;
  expect_near(answer({{"gate", "sigmoid"}}, {{"gate_proj.weight", 0}}).y, half, 1e-12);
  expect_near(answer({{"gate", "sigmoid"}}, {{"gate_proj.weight", 100}}).y, plain, 1e-12);
}

TEST_F(SkaOptions, AnOpenWriteGateIsNone) {
  for (const char* scope : {"sequence", "prefix", "token"}) {
    const Values plain = answer({{"norm_scope", scope}}).y;
    for (const char* gate : {"sqrt", "linear", "key_linear", "value_linear", "asymmetric"})
      expect_near(answer({{"norm_scope", scope}, {"write_gate", gate}}, {{"beta_proj.bias", 60}}).y, plain, 1e-4);
  }
}

// With one beta for all tokens every sum has that factor once, but in the ridge.
TEST_F(SkaOptions, AHalfOpenWriteGateActsAsTwiceTheRidge) {
  const nlohmann::json scope{{"norm_scope", "sequence"}, {"ridge", 0.02}};
  nlohmann::json gated{{"norm_scope", "sequence"}, {"ridge", 0.01}};
  const Values plain = answer(scope).y;
  for (const char* gate : {"sqrt", "asymmetric"}) {
    gated["write_gate"] = gate;
    expect_near(answer(gated).y, plain, 1e-12);
  }
}

TEST_F(SkaOptions, ALengthThatNoKeyReachesClipsNothing) {
  const Answer long_enough = answer({{"norm_scope", "clip"}, {"clip", 1e4}});
  const Answer longer = answer({{"norm_scope", "clip"}, {"clip", 1e5}});
  EXPECT_EQ(long_enough.y, longer.y);
  EXPECT_EQ(long_enough.gradients.at("k_proj.weight"), longer.gradients.at("k_proj.weight"));
  // All of them are longer than a tiny length, so that they are unit vectors times it; m is 1 in both.
  expect_near(answer({{"norm_scope", "clip"}, {"clip", 1e-2}, {"ridge", 1e-4}}).y,
              answer({{"norm_scope", "clip"}, {"clip", 1e-3}, {"ridge", 1e-6}}).y, 1e-9);
}

TEST_F(SkaOptions, AReadGateLeadsFromRidgeRegressionToTheFilter) {
  for (const char* scope : {"sequence", "prefix", "clip"}) {
    const auto with = [&](const char* gate, int power, double logit) {
      return answer({{"norm_scope", scope}, {"read_gate", gate}, {"K", power}},
                    std::string(gate) == "none" ? Given{} : Given{{"lambda_proj.bias", logit}})
          .y;
    };
    expect_near(with("sigmoid", 2, 50), with("none", 2, 0), 1e-12);
    expect_near(with("sigmoid", 2, -50), with("none", 0, 0), 1e-12);
    expect_near(with("sigmoid", 0, 0.3), with("none", 0, 0), 1e-12);
  }
}

TEST_F(SkaOptions, BoundsThatMeetFixAGain) {
  const Answer fixed = answer({{"gamma_range", {1.2, 1.2}}, {"eta_range", {1.5, 1.5}}}, {{"gamma_raw", 3}});
  EXPECT_THAT(fixed.gradients.at("gamma_raw"), ::testing::Each(0.0));
  EXPECT_THAT(fixed.gradients.at("eta_raw"), ::testing::Each(0.0));
  const double raw = std::log(0.4 / 0.6);  // 1 + 0.5 * 0.4
  expect_near(fixed.y, answer(nlohmann::json::object(), {{"gamma_raw", raw}}).y, 1e-12);
  // The start of eta is the same number between bounds.
  expect_near(answer({{"eta_range", {1.4, 1.7}}}).y, answer(nlohmann::json::object()).y, 1e-12);
}

TEST_F(SkaOptions, DecayLeavesGatesOfTheReadAloneAndScalesAreChannels) {
  const Answer all =
      answer({{"read_gate", "sigmoid"}, {"write_gate", "sqrt"}, {"layer_scale", true}}, {{"layer_scale", 0.25}});
  for (const char* name : {"lambda_proj.weight", "lambda_proj.bias", "beta_proj.bias", "layer_scale"})
    EXPECT_FALSE(all.decays.at(name)) << name;
  EXPECT_TRUE(all.decays.at("beta_proj.weight"));
  Values whole = answer({{"read_gate", "sigmoid"}, {"write_gate", "sqrt"}}).y;
  for (double& value : whole) value /= 4;
  expect_near(all.y, whole, 1e-12);
}

// With v = V z the lagged C is V M and the usual one V G, so that G G~^-1 aside one step of the operator is gamma times
// the shift by one token.
TEST_F(SkaOptions, OneStepOfTheOperatorIsTheShiftByOneToken) {
  const auto own_values = [&](ParameterStore& store) {
    const Values keys = store.download(store.find("k_proj.weight")->value);
    Values values;
    for (int head = 0; head < 2; ++head)
      values.insert(values.end(), keys.begin() + head * 5 * 12, keys.begin() + (head * 5 + 4) * 12);
    store.upload(*store.find("v_proj.weight"), values);
  };
  const nlohmann::json scope{{"mode", "prefix"}, {"norm_scope", "sequence"}, {"ridge", 1e-9}, {"gamma", 1.2}};
  nlohmann::json shifted = scope, stepped = scope;
  shifted.update({{"K", 0}, {"values", "lagged"}});
  stepped.update({{"K", 1}, {"power_iters", 0}});
  Values want = answer(shifted, {}, own_values).y;
  for (double& value : want) value *= 1.2;
  expect_near(answer(stepped, {}, own_values).y, want, 1e-5);
}

TEST_F(SkaOptions, TurningPairsOfLiftedKeysChangesNothing) {
  const nlohmann::json lifted{{"invariant_lift", true}, {"norm_scope", "prefix"}};
  const auto turn = [&](ParameterStore& store) {
    for (const char* name : {"k_proj.weight", "q_proj.weight"}) {
      Values rows = store.download(store.find(name)->value);
      ASSERT_EQ(rows.size(), std::size_t{2 * 10 * 12}) << "two numbers for each of the five of a key";
      for (std::size_t i = 0; i < rows.size(); i += 24) {
        for (std::size_t k = i; k < i + 12; ++k) {
          const double a = rows[k], b = rows[k + 12];
          rows[k] = std::cos(0.7) * a - std::sin(0.7) * b;
          rows[k + 12] = std::sin(0.7) * a + std::cos(0.7) * b;
        }
      }
      store.upload(*store.find(name), rows);
    }
  };
  expect_near(answer(lifted, {}, turn).y, answer(lifted).y, 1e-10);
}

// The gradients of new parameters, and those through shifted values and lifted keys, against differences along one
// direction.
TEST_F(SkaOptions, GradientsThroughValuesAndLiftedKeysAreSlopes) {
  const nlohmann::json values{{"values", "lagged"}, {"value_conv", 4}, {"norm_scope", "prefix"}};
  const nlohmann::json lifted{{"invariant_lift", true}, {"norm_scope", "prefix"}};
  const auto loss = [&](const nlohmann::json& config, const char* name, double value) {
    double sum = 0;
    for (const double y : answer(config, {{name, value}}).y) sum += y * y / 2;
    return sum;
  };
  for (const auto& [config, name] : {std::pair(values, "v_conv.weight"),
                                     {values, "v_proj.weight"},
                                     {lifted, "k_proj.weight"},
                                     {lifted, "q_proj.weight"}}) {
    constexpr double at = 0.3, step = 1e-5;
    const Values slopes = answer(config, {{name, at}}).gradients.at(name);
    const double along = std::accumulate(slopes.begin(), slopes.end(), 0.0),
                 difference = (loss(config, name, at + step) - loss(config, name, at - step)) / (2 * step);
    EXPECT_NEAR(along / difference, 1, 1e-6) << name;
  }
}

TEST_F(SkaOptions, GammaStartsWhereItIsTold) {
  const double raw = std::log(0.2 / 0.8);  // 0.5 + 1.0 * 0.2
  const nlohmann::json range{{"gamma_range", {0.5, 1.5}}};
  nlohmann::json told = range;
  told["gamma"] = 0.7;
  expect_near(answer(told).y, answer(range, {{"gamma_raw", raw}}).y, 1e-12);
}

TEST_F(SkaOptions, ImpossibleOnesAreRefusedByName) {
  const auto refused = [&](const nlohmann::json& more, const char* text) {
    EXPECT_THAT([&] { answer(more); }, ::testing::ThrowsMessage<Error>(::testing::HasSubstr(text)));
  };
  refused({{"clip", 2}}, "norm_scope");
  refused({{"gamma_range", {1.5, 1}}}, "gamma_range must be two numbers");
  refused({{"eta_range", "wide"}}, "eta_range must be two numbers");
  refused({{"write_gate", "root"}}, "write_gate");
  refused({{"mask", "context"}}, "mask is a field of mode \"masked\"");
  refused({{"mode", "masked"}, {"mask", "question"}}, "facts + question");
  refused({{"mode", "masked"}, {"mask", {0, 1, 1.5}}}, "three weights from 0 to 1");
  refused({{"mode", "masked"}, {"mask", {0, 1}}}, "three weights from 0 to 1");
  refused({{"mode", "recurrent"}, {"values", "lagged"}}, "lagged values need mode");
  refused({{"gamma", 0.7}}, "gamma");
}

/// What painted weights of tokens do to the answers; roles are facts at 1, 2, 4, 5 and a question at 7, 8.
class PaintedTokens : public SkaOptions {
 protected:
  Values painted(const nlohmann::json& more, const SumWeights& weights, const Given& given = {}) {
    return answer(more, given, {}, weights).y;
  }
  static SumWeights of_all(double weight) { return {{}, {{0, weight}, {1, weight}, {2, weight}}}; }
};

TEST_F(PaintedTokens, OfZeroAreLeftOutAndOfOneCounted) {
  const nlohmann::json with[] = {{{"K", 2}},
                                 {{"K", 0}, {"values", "lagged"}},
                                 {{"write_gate", "asymmetric"}, {"read_gate", "sigmoid"}},
                                 {{"norm_scope", "token"}, {"write_gate", "sqrt"}},
                                 {{"norm_scope", "clip"}, {"clip", 0.5}, {"K", 1}}};
  for (nlohmann::json masked : with) {
    masked["mode"] = "masked";
    nlohmann::json whole = masked;
    whole["mode"] = "prefix";
    const Values of_facts = answer(masked).y, of_all_tokens = answer(whole).y;
    EXPECT_GT(relative_error(of_facts, of_all_tokens), 1e-3);
    EXPECT_EQ(painted(whole, {{{0, 0}, {3, 0}, {6, 0}}, {{2, 0}}}), of_facts) << masked;
    EXPECT_EQ(painted(masked, of_all(1)), of_all_tokens) << masked;
    EXPECT_EQ(painted(masked, {{{0, 0}, {1, 1}}, {}}), of_facts) << masked;
    expect_near(painted(masked, {{{1, 1 - 1e-9}}, {{0, 1e-16}, {2, 1e-16}}}), of_facts, 1e-4);
    masked["mask"] = "facts + question";
    EXPECT_EQ(painted(whole, {{}, {{0, 0}}}), answer(masked).y) << masked;
    EXPECT_THAT(painted(whole, of_all(0)), ::testing::Each(0.0)) << masked;
  }
}

TEST_F(PaintedTokens, BetweenAreAWriteGateOfThatWeight) {
  for (const char* mode : {"prefix", "chunk", "recurrent"}) {
    const nlohmann::json plain{{"mode", mode}, {"norm_scope", "clip"}};
    nlohmann::json gated = plain;
    gated["write_gate"] = "sqrt";
    expect_near(painted(plain, of_all(0.3)), answer(gated, {{"beta_proj.bias", std::log(0.3 / 0.7)}}).y, 1e-12);
  }
}

// A soft mask trains: its answers are those of painted roles, its gradients those of a hard mask at 0 and 1, and those
// of a write gate that gives every token its weight.
TEST_F(PaintedTokens, OfRolesAreASoftMask) {
  const auto soft = [](double filler, double facts, double question) {
    return nlohmann::json{{"mode", "masked"}, {"mask", {filler, facts, question}}};
  };
  const nlohmann::json of_facts{{"mode", "masked"}};
  expect_near(answer(soft(0.04, 0.9, 0.25)).y, painted(of_facts, {{}, {{0, 0.04}, {1, 0.9}, {2, 0.25}}}), 1e-12);
  expect_near(painted(soft(0.04, 0.9, 0.25), {{{3, 0.5}}, {}}),
              painted(of_facts, {{{3, 0.5}}, {{0, 0.04}, {1, 0.9}, {2, 0.25}}}), 1e-12);
  nlohmann::json even = soft(0.3, 0.3, 0.3), gated{{"mode", "prefix"}, {"norm_scope", "clip"}, {"write_gate", "sqrt"}};
  even["norm_scope"] = "clip";
  const std::pair<Answer, Answer> same[] = {{answer(soft(0, 1, 0)), answer(of_facts)},
                                            {answer(even), answer(gated, {{"beta_proj.bias", std::log(0.3 / 0.7)}})}};
  for (const auto& [got, want] : same) {
    expect_near(got.y, want.y, 1e-12);
    for (const char* name : {"k_proj.weight", "q_proj.weight", "v_proj.weight", "gamma_raw"})
      expect_near(got.gradients.at(name), want.gradients.at(name), 1e-10);
  }
}

// m and the sums have the same factor, as if all keys were shorter.
TEST_F(PaintedTokens, AllOfOneWeightAreAsBeforeWhereKeysAreDividedByTheLongest) {
  const Values plain = answer({{"mode", "prefix"}}).y;
  expect_near(painted({{"mode", "prefix"}}, of_all(0.3)), plain, 1e-12);
  EXPECT_GT(relative_error(painted({{"mode", "prefix"}}, {{{4, 0.3}}, {}}), plain), 1e-4);
}

// Of sum y^2 / 2 by the logarithm of a weight that multiplies every beta = 1/2.
TEST_F(PaintedTokens, SlopesAreThoseOfTheGate) {
  const nlohmann::json gated{{"mode", "prefix"}, {"norm_scope", "clip"}, {"write_gate", "sqrt"}};
  const auto loss = [&](double weight) {
    const Values y = painted(gated, of_all(weight));
    return std::inner_product(y.begin(), y.end(), y.begin(), 0.0) / 2;
  };
  const double h = 1e-4, slope = (3 * loss(1) - 4 * loss(1 - h) + loss(1 - 2 * h)) / (2 * h);
  const Values by_logit = answer(gated).gradients.at("beta_proj.bias");
  const double want = std::accumulate(by_logit.begin(), by_logit.end(), 0.0) * 2;
  EXPECT_GT(std::abs(want), 1e-3);
  EXPECT_NEAR(slope / want, 1, 1e-5);
}

/// One head that reads token after token, the later ones larger, with m running on or kept from some token on.
class KeptScale : public ::testing::Test {
 protected:
  static constexpr int width = 8, tokens = 12, prompt = 5;
  static constexpr double ridge = 0.05;

  KeptScale() {
    store_.allocate_values(*backend_, DType::f64);
    store_.initialise(5);
    Random random(7);
    Values weights(width * 6);
    for (double& weight : weights) weight = random.normal();
    backend_->upload(store_.find("layer.o_proj.weight")->value, weights.data());
    for (double& value : x_) value = random.normal();
  }
  /// The answers to tokens [first, last), one after the other.
  Values read(LayerState& state, int first, int last) {
    Values all;
    for (int t = first; t < last; ++t) {
      tape_.begin(false);
      const Values row(x_.begin() + t * width, x_.begin() + (t + 1) * width);
      const Var y = layer_->step(tape_, tape_.constant(to_device(tape_, {1, 1, width}, DType::f64, row)), state);
      const Values answer = to_host(*backend_, y.value);
      all.insert(all.end(), answer.begin(), answer.end());
    }
    return all;
  }
  Values of(const LayerState& state, const char* name) { return to_host(*backend_, state.get(name)); }

  std::unique_ptr<Backend> backend_ = make_cpu_backend(1);
  ParameterStore store_;
  std::unique_ptr<Layer> layer_ =
      make_layer("ska", {{"d", width}, {"H", 1}, {"r", 4}, {"P", 6}, {"K", 2}, {"ridge", ridge}, {"mode", "recurrent"}},
                 ParameterScope(store_, "layer"));
  Arena arena_{*backend_};
  Tape tape_{*backend_, arena_};
  Values x_ = Values(tokens * width);
};

TEST_F(KeptScale, IsTheRunningFormWithAnotherRidge) {
  for (std::size_t i = prompt * width; i < x_.size(); ++i) x_[i] *= 3;
  LayerState running = layer_->make_state(*backend_, DType::f64, 1),
             kept = layer_->make_state(*backend_, DType::f64, 1);
  read(running, 0, prompt);
  read(kept, 0, prompt);
  const double before = of(kept, "m").at(0);
  kept.keeps_scale = true;
  read(running, prompt, tokens - 1);
  read(kept, prompt, tokens - 1);
  EXPECT_EQ(of(kept, "m").at(0), before);
  const double grown = of(running, "m").at(0) / before;
  ASSERT_GT(grown, 1.5);
  for (const auto& [name, power] :
       {std::pair("G", 2.0), std::pair("M", 2.0), std::pair("C", 1.0), std::pair("previous_key", 1.0)}) {
    const Values a = of(kept, name), b = of(running, name);
    for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i] * std::pow(grown, power), 1e-9) << name << i;
  }
  // The last answer is given with the scale after its own key.
  LayerState again = layer_->make_state(*backend_, DType::f64, 1);
  read(again, 0, tokens);
  const double last = of(again, "m").at(0) / before;
  const Values frozen = read(kept, tokens - 1, tokens), other = read(running, tokens - 1, tokens);
  LayerState smaller = layer_->make_state(*backend_, DType::f64, 1);
  read(smaller, 0, tokens - 1);
  layer_->set("ridge", ridge / (last * last));
  EXPECT_LE(relative_error(frozen, read(smaller, tokens - 1, tokens)), 1e-9);
  EXPECT_GT(relative_error(frozen, other), 1e-3) << "the ridge matters here";
}

TEST_F(KeptScale, ChangesNoBitWhileKeysAreShorter) {
  for (std::size_t i = prompt * width; i < x_.size(); ++i) x_[i] *= 0.1;
  LayerState running = layer_->make_state(*backend_, DType::f64, 1),
             kept = layer_->make_state(*backend_, DType::f64, 1);
  kept.keeps_scale = true;  // from the first token on, which it then keeps
  EXPECT_EQ(read(running, 0, 1), read(kept, 0, 1));
  running.keeps_scale = false;
  LayerState plain = layer_->make_state(*backend_, DType::f64, 1), later = layer_->make_state(*backend_, DType::f64, 1);
  EXPECT_EQ(read(plain, 0, prompt), read(later, 0, prompt));
  later.keeps_scale = true;
  EXPECT_EQ(read(plain, prompt, tokens), read(later, prompt, tokens));
}

}  // namespace
}  // namespace afterglow::testing
