// Token weights of the observer: with the values of the tokens they give what the layer's heads answer.
#include <gtest/gtest.h>

#include <cmath>
#include <complex>

#include "core/engine/inspection/observer.h"
#include "core/engine/observation/mode_numbers.h"
#include "core/engine/session/analysed_run.h"
#include "core/layers/capture_reader.h"
#include "tests/core/engine/small_recipe.h"

namespace afterglow {
namespace {

struct Mixer {
  const char* name;
  const char* json;
  int heads;
  bool causal = true;
};

void PrintTo(const Mixer& one, std::ostream* out) { *out << one.name; }

Recipe recipe_with(const char* mixer, int length) {
  nlohmann::json recipe = small_recipe_json();
  recipe["model"]["blocks"] =
      nlohmann::json::array({{{"mixer", nlohmann::json::parse(mixer)}, {"mlp", {{"kind", "swiglu"}, {"d_ff", 24}}}}});
  recipe["task"]["length"] = length;
  return parse_recipe(recipe, "test");
}

constexpr int mixer_part = 1;  // after the embedding

/// A trainer in float64 with its observer, and a second look at the same sequence by hand.
struct Looked {
  Looked(const char* mixer, int length)
      : backend(make_cpu_backend(1)),
        trainer(recipe_with(mixer, length), *backend, DType::f64),
        observer(trainer),
        arena(*backend),
        tape(*backend, arena),
        read(tape, *backend) {
    const Example& example = observer.example();
    tokens = Tensor(backend->allocate(example.tokens.size() * 4), {1, size()}, DType::i32);
    context = Tensor(backend->allocate(example.tokens.size()), {1, size()}, DType::u8);
    backend->upload(tokens, example.tokens.data());
    backend->upload(context, example.context.data());
    tape.begin(false);
    const Capturing capturing(tape);
    trainer.model().forward(tape, tokens, context);
    backend->synchronize();
  }
  ~Looked() {
    backend->release(tokens.data);
    backend->release(context.data);
  }
  std::int64_t size() const { return static_cast<std::int64_t>(observer.example().tokens.size()); }
  const ModelPart& part() const { return trainer.parts()[mixer_part]; }
  std::vector<double> inspected(const char* name) const { return read.values(part().scope + "." + name); }
  double parameter(const char* name, int head) {
    return trainer.parameters().download(trainer.parameters().find(part().scope + "." + name)->value)[head];
  }

  std::unique_ptr<Backend> backend;
  Trainer trainer;
  Observer observer;
  Arena arena;
  Tape tape;
  CaptureReader read;
  Tensor tokens, context;
};

class ObservedWeights : public testing::TestWithParam<Mixer> {};

TEST_P(ObservedWeights, GiveWhatTheHeadsAnswer) {
  Looked looked(GetParam().json, 24);
  const auto weights = looked.observer.token_weights(mixer_part);
  const std::string kind = looked.part().kind;
  const int T = 24, heads = GetParam().heads;
  ASSERT_EQ(weights->tokens, T);
  ASSERT_EQ(weights->heads, heads);
  ASSERT_EQ(weights->layer, mixer_part);
  const std::vector<double> answers = looked.inspected("readout"), values = looked.inspected("values");
  const int width = static_cast<int>(answers.size()) / (T * heads);
  const int value_heads = static_cast<int>(values.size()) / (T * width);
  double largest = 0, difference = 0;
  for (int h = 0; h < heads; ++h) {
    const double factor = kind == "ska" ? looked.parameter("eta", h) : 1;
    const double skip = kind.starts_with("mamba") ? looked.parameter("D", h) : 0;
    const std::vector<float>& w = weights->weights[static_cast<std::size_t>(h)];
    ASSERT_EQ(w.size(), static_cast<std::size_t>(T * T));
    const auto value = [&](int s, int p) {
      return values[static_cast<std::size_t>((s * value_heads + h * value_heads / heads) * width + p)];
    };
    for (int i = 0; i < T * width; ++i) {
      const int t = i / width, p = i % width;
      double sum = 0;
      for (int s = 0; s < T; ++s) {
        const auto weight = static_cast<double>(w[static_cast<std::size_t>(t * T + s)]);
        if (!std::isnan(weight)) sum += factor * weight * value(s, p);
      }
      const double answer = answers[static_cast<std::size_t>((t * heads + h) * width + p)] - skip * value(t, p);
      largest = std::max(largest, std::abs(answer));
      difference = std::max(difference, std::abs(sum - answer));
    }
  }
  EXPECT_GT(largest, 0);
  EXPECT_LT(difference, 1e-5 * largest);
}

TEST_P(ObservedWeights, AreBlankInTheFutureOfCausalLayersOnly) {
  Looked looked(GetParam().json, 24);
  const auto weights = looked.observer.token_weights(mixer_part);
  for (const std::vector<float>& head : weights->weights) {
    for (std::size_t t = 0; t < 24; ++t) {
      for (std::size_t s = 0; s < 24; ++s)
        EXPECT_EQ(std::isnan(head[t * 24 + s]), GetParam().causal && s > t) << t << ", " << s;
    }
  }
}

TEST_P(ObservedWeights, StayWhatTheyAreWhereALongSequenceIsCut) {
  Looked looked(GetParam().json, 300);
  const auto weights = looked.observer.token_weights(mixer_part);
  ASSERT_EQ(weights->tokens, 256);
  for (const std::vector<float>& head : weights->weights) ASSERT_EQ(head.size(), 256u * 256u);
  if (!GetParam().causal) return;  // other sequences, other statistics
  Example cut = looked.observer.example();
  for (auto* list : {&cut.tokens, &cut.targets}) list->resize(256);
  cut.context.resize(256);
  looked.observer.choose(cut);
  const auto alone = looked.observer.token_weights(mixer_part);
  for (std::size_t h = 0; h < weights->weights.size(); ++h) {
    for (std::size_t i = 0; i < 256u * 256u; ++i) {
      const float w = weights->weights[h][i];
      if (std::isnan(w)) continue;
      ASSERT_NEAR(w, alone->weights[h][i], 1e-5 * (1 + std::abs(w)));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Mixers, ObservedWeights,
    testing::Values(
        Mixer{"prefix", R"({"kind":"ska","H":2,"r":6,"P":8,"K":2,"mode":"prefix"})", 2, false},
        Mixer{"masked", R"({"kind":"ska","H":2,"r":6,"P":8,"K":1,"mode":"masked"})", 2, false},
        Mixer{"chunk", R"({"kind":"ska","H":2,"r":6,"P":8,"K":2,"mode":"chunk","chunk":5,"norm_scope":"prefix"})", 2},
        Mixer{"recurrent", R"({"kind":"ska","H":2,"r":6,"P":8,"K":3,"mode":"recurrent"})", 2},
        Mixer{"attention", R"({"kind":"attention","n_heads":4,"n_kv_heads":2})", 4},
        Mixer{"linear", R"({"kind":"linear_attention","n_heads":2})", 2},
        Mixer{"deltanet", R"({"kind":"deltanet","H":2,"Dk":5,"Dv":6})", 2},
        Mixer{"gated_deltanet", R"({"kind":"gated_deltanet","H":2,"Dk":5,"Dv":6})", 2},
        Mixer{"gla", R"({"kind":"gla","H":2,"Dk":5,"Dv":6,"gate_rank":3})", 2},
        Mixer{"kalman", R"({"kind":"kalman","H":2,"Dk":5,"Dv":6,"ridge":0.3})", 2},
        Mixer{"gka", R"({"kind":"gka","num_heads":2,"head_dim":6})", 2},
        Mixer{"gka_plain",
              R"({"kind":"gka","num_heads":2,"head_dim":6,"use_forgetting_gate":false,"use_alpha_connection":false})",
              2},
        Mixer{"mamba2", R"({"kind":"mamba2","d_state":4,"expand":2,"headdim":8})", 4},
        Mixer{"mamba3", R"({"kind":"mamba3","d_state":4,"expand":2,"headdim":8})", 4},
        Mixer{"mamba3_squares",
              R"({"kind":"mamba3","d_state":4,"expand":2,"headdim":8,"invariant_lift":true,"harmonics":true})", 4}),
    [](const auto& mixer) { return std::string(mixer.param.name); });

// Numbers that are changed live count in the weights: a gate that does not close, and the readout without the solve.
TEST(TokenWeightsOfGatedKalmaNet, FollowItsLiveNumbers) {
  Looked looked(R"({"kind":"gka","num_heads":2,"head_dim":6})", 24);
  const auto weights_with = [&](double floor, double alpha) {
    Layer& layer = *looked.trainer.model().branches()[static_cast<std::size_t>(looked.part().branch)].layer;
    layer.set("gate_floor", floor);
    layer.set("alpha", alpha);
    looked.observer.choose(looked.observer.example());
    return looked.observer.token_weights(mixer_part)->weights[1];
  };
  const std::vector<float> open = weights_with(1, 0), closing = weights_with(0, 0), solved = weights_with(1, 1);
  const double before = static_cast<double>(closing[23 * 24]), now = static_cast<double>(open[23 * 24]);
  EXPECT_LT(std::abs(before), std::abs(now)) << "what fades is worth less";
  EXPECT_FLOAT_EQ(closing[23 * 24 + 23], open[23 * 24 + 23]) << "nothing has faded yet";
  EXPECT_NE(solved[23 * 24], open[23 * 24]);
}

TEST(TokenWeightsOfAttention, AreShares) {
  Looked looked(R"({"kind":"attention","n_heads":2})", 37);
  const auto weights = looked.observer.token_weights(mixer_part);
  for (const std::vector<float>& head : weights->weights) {
    for (std::size_t t = 0; t < 37; ++t) {
      double sum = 0;
      for (std::size_t s = 0; s <= t; ++s) sum += static_cast<double>(head[t * 37 + s]);
      EXPECT_NEAR(sum, 1, 1e-5);
    }
  }
}

TEST(TracedGram, HasTheSpectrumOfTheStateAndGrowsNoFasterThanTheTokens) {
  const auto backend = make_cpu_backend(1);
  AnalysedRun analysed({small_recipe(), std::nullopt}, *backend);
  analysed.advance(Analysis::trace, Budget::whole);
  const Observation seen = analysed.describe();
  for (std::size_t t = 0; t < seen.trace->steps.size(); ++t) {
    for (const HeadStep& head : seen.trace->steps[t].heads) {
      ASSERT_EQ(head.gram.size(), 6u);
      EXPECT_NEAR(head.gram.back() + head.ridge, head.lambda_min, 1e-12);
      EXPECT_NEAR((head.gram.front() + head.ridge) / head.lambda_min, head.kappa, 1e-9 * head.kappa);
      const GramSize size = gram_size(head.gram);
      double trace = 0;
      for (std::size_t i = 0; i < 6; ++i) trace += head.G[7 * i];
      EXPECT_NEAR(size.trace, trace, 1e-6 * trace);
      EXPECT_LE(size.trace, static_cast<double>(t + 1) * (1 + 1e-5)) << "Echo, proposition E.1";
    }
  }
}

TEST(TracedModes, AreNumberedByTheLastTokenAndKeepTheirNumbersBefore) {
  const auto backend = make_cpu_backend(1);
  AnalysedRun analysed({small_recipe(), std::nullopt}, *backend);
  analysed.advance(Analysis::trace, Budget::whole);
  const Observation seen = analysed.describe();
  const std::vector<TokenStep>& steps = seen.trace->steps;
  const HeadStep& last = steps.back().heads[1];
  ASSERT_FALSE(last.eigenvalues.empty());
  EXPECT_EQ(last.identity.front(), 0) << "the largest";
  for (const TokenStep& step : steps) {
    const HeadStep& head = step.heads[1];
    std::vector<int> numbers = head.identity;
    std::ranges::sort(numbers);
    EXPECT_EQ(numbers, (std::vector<int>{0, 1, 2, 3, 4, 5})) << "each once";
  }
  // Between the last two tokens the slowest mode hardly moves.
  EXPECT_EQ(steps[steps.size() - 2].heads[1].identity.front(), 0);
}

TEST(TokenWeightsOfARun, FollowTheTraceAndAreNoneForAnMlp) {
  const auto backend = make_cpu_backend(1);
  AnalysedRun analysed({small_recipe(), std::nullopt}, *backend);
  analysed.advance(Analysis::trace, Budget::whole);
  Observation seen = analysed.describe();
  ASSERT_TRUE(seen.token_weights);
  EXPECT_EQ(seen.token_weights->layer, seen.trace->layer);
  EXPECT_EQ(seen.model.layers[static_cast<std::size_t>(seen.token_weights->layer)].kind, "ska");
  EXPECT_EQ(seen.token_weights->heads, 2);
  analysed.choose_trace(2);
  EXPECT_FALSE(analysed.describe().token_weights);
  analysed.advance(Analysis::trace, Budget::whole);
  seen = analysed.describe();
  EXPECT_EQ(seen.model.layers[2].kind, "swiglu");
  EXPECT_EQ(seen.token_weights->heads, 0);
  EXPECT_TRUE(seen.token_weights->weights.empty());
}

}  // namespace
}  // namespace afterglow
