// Stacks with a memory of training: where its tokens are, which gradients reach them, one token at a time.
#include <gmock/gmock.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "core/io/error.h"
#include "core/models/model.h"
#include "core/ops/ops.h"
#include "core/random/random.h"
#include "tests/support/host_values.h"

namespace afterglow::testing {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using Values = std::vector<double>;

constexpr int width = 8, vocab = 10, places = 2;

json config_of(const char* mixer = R"({"kind": "attention", "n_heads": 2})") {
  return {{"d_model", width},
          {"vocab", vocab},
          {"blocks", {{{"mixer", json::parse(mixer)}, {"mlp", {{"kind", "swiglu"}, {"d_ff", 12}}}}}},
          {"memory", {{"memory_tokens", places}, {"n_components", 3}, {"memory_depth", 20}, {"dropout", 0.0}}}};
}

struct LivingModel {
  explicit LivingModel(const json& config = config_of(), int history_rows = 12)
      : backend(make_cpu_backend(2)), model(config, store) {
    store.allocate(*backend, DType::f64);
    store.initialise(5);
    Random random(11, weights_stream, 0);
    Values rows(static_cast<std::size_t>(history_rows) * width);
    for (double& value : rows) value = random.normal();
    model.memory()->assign(rows, history_rows);
    model.memory()->refresh(*backend, DType::f64);
  }
  Values logits(const std::vector<std::int32_t>& tokens) {
    tape.begin(false);
    return host.read<double>(model.forward(tape, ids(tokens), {}).value);
  }
  Tensor ids(const std::vector<std::int32_t>& tokens) {
    return host.i32({1, static_cast<std::int64_t>(tokens.size())}, tokens);
  }
  std::unique_ptr<Backend> backend;
  ParameterStore store;
  Model model;
  HostValues host{*backend};
  Arena arena{*backend};
  Tape tape{*backend, arena};
};

double apart(const Values& a, const Values& b) {
  double most = 0;
  for (std::size_t i = 0; i < a.size(); ++i) most = std::max(most, std::abs(a[i] - b[i]));
  return most;
}

TEST(MemoryTokens, StandAtThePlacesWhateverTokenIsGivenThere) {
  LivingModel living;
  ASSERT_TRUE(living.model.memory()->usable());
  const Values logits = living.logits({0, 0, 3, 7, 1});
  EXPECT_EQ(logits.size(), 5u * vocab);
  EXPECT_EQ(living.logits({4, 9, 3, 7, 1}), logits);
  EXPECT_GT(apart(living.logits({0, 0, 4, 7, 1}), logits), 1e-6);

  living.tape.begin(false);
  const Values stream = living.host.read<double>(living.model.embed(living.tape, living.ids({0, 0, 3, 7, 1})).value);
  const Values tokens = living.host.read<double>(living.model.memory()->memory_tokens(living.tape, {}, 0).value);
  const Values table = living.store.download(living.store.find("embedding.weight")->value);
  for (int i = 0; i < places * width; ++i) EXPECT_EQ(stream[i], tokens[i]);
  for (int i = 0; i < width; ++i) EXPECT_EQ(stream[(places + 1) * width + i], table[7 * width + i]);
}

TEST(MemoryTokens, AreZerosWhileTheHistoryIsShortOrSwitchedOff) {
  LivingModel living;
  const Values with = living.logits({0, 0, 3, 7, 1});
  living.model.memory()->switch_off(true);
  const Values without = living.logits({0, 0, 3, 7, 1});
  living.model.memory()->switch_off(false);
  EXPECT_GT(apart(with, without), 1e-6);
  EXPECT_EQ(living.logits({0, 0, 3, 7, 1}), with);
  LivingModel young(config_of(), 3);
  EXPECT_FALSE(young.model.memory()->usable());
  EXPECT_EQ(young.logits({0, 0, 3, 7, 1}), without);
}

TEST(MemoryTokens, OneTokenAtATimeGivesTheSame) {
  for (const char* mixer :
       {R"({"kind": "attention", "n_heads": 2})", R"({"kind": "mamba2", "d_state": 4, "expand": 2, "headdim": 8})",
        R"({"kind": "ska", "H": 2, "r": 3, "P": 4, "mode": "recurrent"})"}) {
    LivingModel living(config_of(mixer));
    const std::vector<std::int32_t> tokens{0, 0, 3, 7, 1, 1, 9};
    const Values whole = living.logits(tokens);
    ModelState state = living.model.make_state(*living.backend, DType::f64, 1);
    for (std::size_t t = 0; t < tokens.size(); ++t) {
      living.tape.begin(false);
      const Values step =
          living.host.read<double>(living.model.step(living.tape, living.ids({tokens[t]}), state).value);
      for (int v = 0; v < vocab; ++v) EXPECT_NEAR(step[v], whole[t * vocab + v], 1e-9) << mixer << ", token " << t;
    }
    EXPECT_EQ(state.position, 7);
  }
}

/// The loss on one sequence; with `gradient` the gradients of all parameters are left in the store.
double loss_of(LivingModel& living, bool gradient) {
  living.tape.begin(gradient);
  const Var logits = living.model.forward(living.tape, living.ids({0, 0, 3, 7, 1}), {});
  const CrossEntropy loss = cross_entropy(living.tape, logits, living.host.i32({1, 5}, {-1, -1, 7, 1, 4}));
  if (gradient) {
    living.tape.backward(loss.loss, living.host.f64({1}, {1.0}));
    living.tape.zero_untouched(living.store);
  }
  return living.host.read<double>(loss.loss.value)[0];
}

/// Each kind of projection, by the name of its field's value.
class MemoryProjections : public ::testing::TestWithParam<const char*> {
 protected:
  static json config() {
    json config = config_of();
    config["memory"]["memory_projection"] = GetParam();
    return config;
  }
};

TEST_P(MemoryProjections, GradientsAreThoseOfFiniteDifferences) {
  LivingModel living(config());
  loss_of(living, true);
  int compared = 0;
  for (Parameter& parameter : living.store.all()) {
    const Values gradient = living.store.download(parameter.gradient);
    Values values = living.store.download(parameter.value);
    const auto count = static_cast<std::size_t>(parameter.shape.elements());
    for (std::size_t i = 0; i < count; i += std::max<std::size_t>(1, count / 7)) {
      constexpr double h = 1e-6;
      const double kept = values[i];
      const auto at = [&](double value) {
        values[i] = value;
        living.store.upload(parameter, values);
        return loss_of(living, false);
      };
      const double slope = (at(kept + h) - at(kept - h)) / (2 * h);
      at(kept);
      EXPECT_NEAR(gradient[i], slope, 1e-7 + 1e-5 * std::abs(slope)) << parameter.name << "[" << i << "]";
      ++compared;
    }
  }
  EXPECT_GT(compared, 60);
  const Values first = living.store.download(living.model.memory()->first_parameter().gradient);
  EXPECT_GT(apart(first, Values(first.size())), 1e-7) << "the memory learns from the answers";
  const Values table = living.store.download(living.store.find("embedding.weight")->gradient);
  EXPECT_EQ(apart(Values(table.begin(), table.begin() + width), Values(width)), 0.0)
      << "token 0 fills only the places, where no layer reads it";
}

/// Rows of [M,d] with mean 0 and variance 1, as the norm with its start values leaves them.
Values normed(Values rows) {
  for (std::size_t at = 0; at < rows.size(); at += width) {
    double mean = 0, square = 0;
    for (int i = 0; i < width; ++i) mean += rows[at + i] / width;
    for (int i = 0; i < width; ++i) square += std::pow(rows[at + i] - mean, 2) / width;
    for (int i = 0; i < width; ++i) rows[at + i] = (rows[at + i] - mean) / std::sqrt(square + 1e-5);
  }
  return rows;
}

TEST_P(MemoryProjections, AreWhatTheComparisonOfThePaperSays) {
  LivingModel living(config());
  SpectralMemory& memory = *living.model.memory();
  const auto tokens = [&] {
    living.tape.begin(false);
    return living.host.read<double>(memory.memory_tokens(living.tape, {}, 0).value);
  };
  const std::string kind = GetParam();
  const Values before = tokens();
  const Values& components = memory.decomposition().components;
  Values expected;
  if (kind == "none") expected.assign(components.begin(), components.begin() + places * width);
  if (kind == "free") expected = living.store.download(living.store.find("memory.tokens")->value);
  if (!expected.empty()) {
    EXPECT_LT(apart(before, normed(expected)), 1e-12);
  }
  EXPECT_EQ(living.store.find("memory.projection_mlp.0.weight") != nullptr, kind == "mlp");
  EXPECT_EQ(&memory.first_parameter() == living.store.find("memory.norm.weight"), kind == "none");
  memory.leave_out(0);
  EXPECT_EQ(apart(tokens(), before) > 1e-9, kind != "free") << "free tokens see no history";
  memory.leave_out(-1);
  EXPECT_EQ(tokens(), before);
}

TEST_P(MemoryProjections, UseTheFirstModesAndTokensAndTheNewestRows) {
  LivingModel living(config());
  SpectralMemory& memory = *living.model.memory();
  const auto tokens = [](LivingModel& of) {
    of.tape.begin(false);
    return of.host.read<double>(of.model.memory()->memory_tokens(of.tape, {}, 0).value);
  };
  const Values before = tokens(living);
  const MemoryShare whole = memory.whole();
  memory.keep({whole.modes, 1, whole.rows});
  const Values one = tokens(living);
  EXPECT_EQ(Values(one.begin(), one.begin() + width), Values(before.begin(), before.begin() + width));
  EXPECT_EQ(Values(one.begin() + width, one.end()), Values(width)) << "zeros stand in the place of the second token";
  // The newest five rows alone, as if there had never been others.
  memory.keep({2, whole.tokens, 5});
  const Values newest = memory.history().values(5);
  LivingModel young(config(), 12);
  young.model.memory()->assign(newest, 5);
  young.model.memory()->refresh(*young.backend, DType::f64);
  young.model.memory()->keep({2, whole.tokens, whole.rows});
  EXPECT_LT(apart(tokens(living), tokens(young)), 1e-12);
  EXPECT_EQ(apart(tokens(living), before) > 1e-9, std::string(GetParam()) != "free");
  const Values used = memory.used_components();
  EXPECT_GT(apart(Values(used.begin(), used.begin() + 2 * width), Values(2 * width)), 1e-3);
  EXPECT_EQ(Values(used.begin() + 2 * width, used.end()), Values(width)) << "the third mode is not used";
  memory.keep(whole);
  EXPECT_EQ(tokens(living), before);
}

INSTANTIATE_TEST_SUITE_P(All, MemoryProjections, ::testing::Values("mlp", "none", "free"));

TEST(MemoryTokens, TheSummaryIsPooledBehindThePlaces) {
  LivingModel living;
  living.tape.begin(false);
  living.model.forward(living.tape, living.ids({0, 0, 3, 7, 1}), {});
  const Values hidden = living.host.read<double>(living.model.last_hidden());
  const Values summary = living.host.read<double>(living.model.memory_summary(living.tape));
  const Values pooling = living.store.download(living.store.find("pooling_layer.weight")->value);
  ASSERT_EQ(summary.size(), static_cast<std::size_t>(width));
  Values weights;
  double sum = 0;
  for (int t = places; t < 5; ++t) {
    double score = 0;
    for (int i = 0; i < width; ++i) score += pooling[i] * hidden[t * width + i];
    weights.push_back(std::exp(score));
    sum += weights.back();
  }
  for (int i = 0; i < width; ++i) {
    double expected = 0;
    for (int t = places; t < 5; ++t) expected += weights[t - places] / sum * hidden[t * width + i];
    EXPECT_NEAR(summary[i], expected, 1e-12);
  }
}

TEST(MemoryTokens, AreNoMoreThanTheComponentsWithoutAProjection) {
  json config = config_of();
  config["memory"]["memory_projection"] = "none";
  config["memory"]["n_components"] = 1;
  ParameterStore store;
  try {
    const Model model(config, store);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("model.memory.memory_tokens 2"));
  }
}

TEST(MemoryTokens, SaysWhatIsWrong) {
  LivingModel living;
  try {
    living.logits({0, 0});
    ADD_FAILURE() << "a sequence of places alone";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("2 memory tokens"));
  }
  for (const auto& [field, value] : std::vector<std::pair<std::string, json>>{{"memory_tokens", 0},
                                                                              {"n_components", 0},
                                                                              {"memory_depth", -1},
                                                                              {"kl_strategy", "pca"},
                                                                              {"memory_projection", "linear"},
                                                                              {"tokens", 4}}) {
    json config = config_of();
    config["memory"][field] = value;
    ParameterStore store;
    try {
      const Model model(config, store);
      ADD_FAILURE() << field;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::bad_input);
      EXPECT_THAT(error.what(), HasSubstr("model.memory"));
      EXPECT_THAT(error.what(), HasSubstr(field));
    }
  }
}

}  // namespace
}  // namespace afterglow::testing
