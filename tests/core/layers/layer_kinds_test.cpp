// Descriptors of layers: each makes what it says, and what it says of captures holds.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>

#include "tests/core/layers/captured_small_layer.h"

namespace afterglow {
namespace {

constexpr int width = 32, tokens = 13;

CapturedSmallLayer captured(const LayerKind& kind) {
  return {kind.name, small_layer_config(kind, width), tokens, width};
}

class EveryKind : public ::testing::TestWithParam<LayerKind> {};

TEST_P(EveryKind, MakesWhatItSays) {
  const LayerKind& kind = GetParam();
  EXPECT_FALSE(kind.description.empty());
  EXPECT_FALSE(kind.source.empty());
  EXPECT_GE(kind.ink, kind.mixes_tokens ? 0 : -1) << "a colour; what mixes no tokens may be grey";
  EXPECT_EQ(find_layer_kind(kind.name)->name, kind.name);
  EXPECT_EQ(mixes_tokens(kind.name), kind.mixes_tokens);
  ParameterStore store;
  const nlohmann::json small = small_layer_config(kind, width);
  EXPECT_EQ(small[kind.width_field], width);
  const std::unique_ptr<Layer> layer = make_layer(kind.name, small, ParameterScope(store, "small"));
  EXPECT_EQ(layer->kind(), kind.name);
  EXPECT_EQ(layer->heads() > 0, kind.mixes_tokens);
  EXPECT_EQ(kind.mixes_tokens, kind.readers.token_weights != nullptr);
  EXPECT_EQ(shows(kind.name, LayerTrait::gate), kind.readers.gates != nullptr);
  EXPECT_EQ(shows(kind.name, LayerTrait::ridge_systems), kind.readers.systems != nullptr);
  EXPECT_EQ(shows(kind.name, LayerTrait::pairs), kind.readers.pairs != nullptr);
  std::set<std::string> benchmarks;
  for (const LayerBenchmark& row : kind.benchmarks) {
    const nlohmann::json config = nlohmann::json::parse(row.config);
    EXPECT_EQ(make_layer(kind.name, config, ParameterScope(store, row.config + std::to_string(row.length)))->kind(),
              kind.name);
    EXPECT_TRUE(benchmarks.insert(row.variant + std::to_string(row.length) + config[kind.width_field].dump()).second);
  }
}

/// Gradients of two such layers, one after the other, with the bytes that the pass took. Memory that is handed out
/// again is poisoned first.
std::pair<std::vector<double>, std::size_t> gradients_of_two(const LayerKind& kind, std::size_t recycle_from) {
  const auto backend = make_cpu_backend(1);
  ParameterStore store;
  const nlohmann::json config = small_layer_config(kind, width);
  const auto first = make_layer(kind.name, config, ParameterScope(store, "first")),
             second = make_layer(kind.name, config, ParameterScope(store, "second"));
  store.allocate(*backend, DType::f64);
  store.initialise(3);
  // In a back end's memory, where they begin at whole vectors: sums depend on that in their last bits.
  Arena arguments(*backend), arena(*backend);
  const Shape shape{2, tokens, width};
  const Tensor x = arguments.allocate(shape, DType::f64), upstream = arguments.allocate(shape, DType::f64);
  for (std::int64_t i = 0; i < shape.elements(); ++i) {
    x.as<double>()[i] = std::sin(0.7 * static_cast<double>(i));
    upstream.as<double>()[i] = std::cos(0.3 * static_cast<double>(i));
  }
  arena.set_poison(true);
  Tape tape(*backend, arena);
  tape.begin(true);
  const Var in = tape.input(x);
  const Var y = second->forward(tape, first->forward(tape, in, {}), {});
  tape.backward(y, upstream, recycle_from);
  std::vector<double> all = store.download(store.gradients());
  const Tensor dx = tape.gradient_of(in);
  all.insert(all.end(), dx.as<double>(), dx.as<double>() + dx.elements());
  return {all, arena.used()};
}

TEST_P(EveryKind, NeedsNoValueOnceItsGradientHasFlowedOn) {
  const auto [kept, all_bytes] = gradients_of_two(GetParam(), 0);
  const auto [recycled, bytes] = gradients_of_two(GetParam(), 1);
  EXPECT_EQ(recycled, kept);
  EXPECT_LT(bytes, all_bytes);
}

TEST_P(EveryKind, ShowsEveryGateThatItCaptures) {
  const LayerKind& kind = GetParam();
  const CapturedSmallLayer small = captured(kind);
  const CapturedLayer layer = small.captured();
  std::vector<double> sums = layer.values("log_decay_cumsum");  // [T,H]
  const auto heads = static_cast<std::size_t>(layer.heads());
  for (const char* capture : {"log_decay", "log_gate"}) {
    const std::vector<double>& logs = layer.values(capture);
    if (logs.empty()) continue;
    const std::size_t channels = logs.size() / (tokens * heads);
    sums.assign(tokens * heads, 0.0);
    for (std::size_t i = 0; i < logs.size(); ++i) sums[i / channels] += logs[i] / static_cast<double>(channels);
    for (std::size_t i = heads; i < sums.size(); ++i) sums[i] += sums[i - heads];
  }
  ASSERT_TRUE(kind.readers.gates != nullptr || sums.empty());
  if (kind.readers.gates == nullptr) return;
  const std::vector<HeadGate> gates = kind.readers.gates(layer);
  if (sums.empty()) {  // a layer made of layers, which capture it; some of their heads have a gate
    ASSERT_FALSE(gates.empty());
    for (const HeadGate& gate : gates) {
      EXPECT_LT(gate.head, layer.heads());
      EXPECT_LT(std::accumulate(gate.log_decay.begin(), gate.log_decay.end(), 0.0), 0) << "nothing fades";
    }
    return;
  }
  ASSERT_EQ(gates.size(), heads);
  for (std::size_t head = 0; head < heads; ++head) {
    EXPECT_EQ(gates[head].head, static_cast<int>(head));
    ASSERT_EQ(gates[head].log_decay.size(), static_cast<std::size_t>(tokens));
    double sum = 0;
    for (std::size_t t = 0; t < tokens; ++t) {
      EXPECT_LE(gates[head].log_decay[t], 0);
      sum += gates[head].log_decay[t];
      EXPECT_NEAR(sum, sums[t * heads + head], 1e-12 * std::abs(sum)) << "head " << head << ", token " << t;
    }
    EXPECT_LT(sum, 0) << "nothing fades";
  }
}

TEST_P(EveryKind, ShowsWhatATokenLeavesOfItsState) {
  const LayerKind& kind = GetParam();
  if (!kind.readers.state_modes) GTEST_SKIP() << "its state has no known modes";
  const CapturedSmallLayer small = captured(kind);
  const CapturedLayer layer = small.captured();
  const std::vector<HeadGate> gates = kind.readers.gates ? kind.readers.gates(layer) : std::vector<HeadGate>();
  for (int head = 0; head < layer.heads(); ++head) {
    const std::vector<std::complex<double>> modes = kind.readers.state_modes(layer, head);
    // Of layers made of layers, only heads that fade have one: those of attention keep every token.
    ASSERT_EQ(modes.empty(),
              kind.readers.gates != nullptr && std::ranges::find(gates, head, &HeadGate::head) == gates.end());
    std::complex<double> sum = 0;
    double logs = 0;
    for (const std::complex<double>& mode : modes) {
      EXPECT_LE(std::abs(mode), 1 + 1e-9) << "a memory that grows by itself";
      sum += mode;
      logs += tokens * std::log(std::abs(mode));
    }
    EXPECT_NEAR(sum.imag(), 0, 1e-9) << "the state is real: modes come in conjugate pairs";
    // The determinant of all transitions together, token by token.
    const bool corrects = !layer.values("beta").empty(), fades = !layer.values("log_decay").empty();
    if (!corrects && !fades) continue;
    double expected = 0;
    for (int t = 0; t < static_cast<int>(tokens); ++t) {
      const std::vector<double> key = layer.row("keys", t, head);
      const double square = std::inner_product(key.begin(), key.end(), key.begin(), 0.0);
      if (corrects) expected += std::log(std::abs(1 - layer.row("beta", t, head).front() * square));
      if (!fades) continue;
      const std::vector<double> decay = layer.row("log_decay", t, head);
      const double each = decay.size() == 1 ? static_cast<double>(modes.size()) : 1;
      expected += each * std::accumulate(decay.begin(), decay.end(), 0.0);
    }
    EXPECT_NEAR(logs, expected, 1e-6 * std::abs(expected)) << "head " << head;
  }
}

TEST(LayerKinds, ModesOfMamba3TurnWithItsKeys) {
  const CapturedSmallLayer small = captured(*find_layer_kind("mamba3"));
  const auto modes = find_layer_kind("mamba3")->readers.state_modes(small.captured(), 0);
  EXPECT_GT(modes.size(), 1u);
  EXPECT_TRUE(std::ranges::any_of(modes, [](const auto& mode) { return std::abs(mode.imag()) > 1e-6; }));
}

TEST(LayerTraits, HaveWords) {
  EXPECT_EQ(words_for(LayerTrait::koopman_heads), "an SKA layer");
  EXPECT_EQ(words_for(LayerTrait::koopman_heads | LayerTrait::koopman_modes), "an SKA layer or a Koopman MLP");
  EXPECT_EQ(words_for(LayerTraits()), "");
  for (unsigned bit = 1; bit <= static_cast<unsigned>(LayerTrait::tokens); bit *= 2)
    EXPECT_FALSE(words_for(static_cast<LayerTrait>(bit)).empty()) << bit;
}

TEST_P(EveryKind, SolvesTheSystemsThatItShows) {
  const LayerKind& kind = GetParam();
  if (!kind.readers.systems) GTEST_SKIP() << "solves none";
  const CapturedSmallLayer small = captured(kind);
  const std::vector<int> asked{1, 5, tokens - 1};
  std::vector<int> seen;
  kind.readers.systems(small.captured(), asked, [&](int, int token, const RidgeProblem& problem) {
    seen.push_back(token);
    EXPECT_GT(problem.ridge, 0);
    EXPECT_GE(problem.L, problem.mu);
    EXPECT_EQ(problem.H.size(), problem.q.size() * problem.q.size());
  });
  std::vector<int> expected;
  for (std::int64_t head = 0; head < small.layer->heads(); ++head)
    expected.insert(expected.end(), asked.begin(), asked.end());
  EXPECT_EQ(seen, expected) << "the tokens head by head";
}

INSTANTIATE_TEST_SUITE_P(Layers, EveryKind, ::testing::ValuesIn(layer_kinds()),
                         [](const auto& kind) { return kind.param.name; });

TEST(LayerKinds, GlaShowsTheMeanOfItsChannels) {
  const CapturedSmallLayer small = captured(*find_layer_kind("gla"));
  for (const HeadGate& gate : gates_of_log_decay(small.captured())) EXPECT_EQ(gate.channels, 16);
}

TEST(LayerKinds, PartsThatAreNoLayersShowWhatTheyAre) {
  EXPECT_TRUE(shows("spectral_memory", LayerTrait::training_memory));
  EXPECT_TRUE(shows("dlinear", LayerTrait::series | LayerTrait::gate));
  EXPECT_FALSE(shows("embedding", LayerTrait::training_memory | LayerTrait::series));
  EXPECT_EQ(layer_ink_index("embedding"), quiet_ink);
  EXPECT_EQ(readers_of("embedding").token_weights, nullptr);
}

TEST(LayerKinds, OnlyTheModesThatReadAheadDoSo) {
  const auto made = [](const char* mode, const char* norm) {
    ParameterStore store;
    nlohmann::json config{{"d", 8}, {"H", 2}, {"r", 3}, {"P", 4}, {"mode", mode}};
    if (*norm) config["norm_scope"] = norm;
    const auto layer = make_layer("ska", config, ParameterScope(store, "layer"));
    return std::pair{layer->is_causal(), layer->reads_later_tokens()};
  };
  EXPECT_EQ(made("prefix", ""), std::pair(false, true));
  EXPECT_EQ(made("masked", ""), std::pair(false, true));
  EXPECT_EQ(made("chunk", "sequence"), std::pair(false, false)) << "its scale is that of the whole sequence";
  EXPECT_EQ(made("chunk", "prefix"), std::pair(true, false));
  EXPECT_EQ(made("chunk", "token"), std::pair(true, false)) << "no scale is taken over the sequence";
  EXPECT_EQ(made("chunk", "clip"), std::pair(true, false)) << "nor where m is 1";
  EXPECT_EQ(made("recurrent", ""), std::pair(true, false));
}

}  // namespace
}  // namespace afterglow
