// A prompt that is read at once on the GPU leaves the state of its tokens: the answers behind it are those within the
// whole sequence.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/layers/layer_kind.h"
#include "core/random/random.h"
#include "tests/gpu/gpu_test.h"
#include "tests/support/host_values.h"
#include "tests/support/op_case.h"

namespace afterglow::testing {
namespace {

using nlohmann::json;

struct PromptCase {
  std::string kind;
  json config;
};

class Prompts : public OnGpu<::testing::TestWithParam<PromptCase>> {};

TEST_P(Prompts, AreGoneOnFromAsWithinTheWholeSequence) {
  constexpr std::int64_t length = 303, prompt = 299, width = 64;  // chunks of 64 and a rest
  ParameterStore store;
  const std::unique_ptr<Layer> layer = make_layer(GetParam().kind, GetParam().config, ParameterScope(store, ""));
  store.allocate(*cuda_, DType::f32);
  store.initialise(3);
  Random random(4);
  for (const Parameter& parameter : store.all()) {
    Values values = store.download(parameter.value);
    for (double& value : values) value += 0.1 * random.normal();
    store.upload(parameter, values);
  }
  HostValues host(*cuda_);
  Arena arena(*cuda_);
  Tape tape(*cuda_, arena);
  std::vector<float> numbers;
  for (std::int64_t i = 0; i < length * width; ++i) numbers.push_back(static_cast<float>(random.normal()));
  const auto tokens = [&](std::int64_t first, std::int64_t count) {
    tape.begin(false);
    const auto from = numbers.begin() + first * width;
    return tape.constant(host.f32({1, count, width}, std::vector<float>(from, from + count * width)));
  };
  const Values whole = store.download(layer->forward(tape, tokens(0, length), {}).value);
  LayerState state = layer->make_state(*cuda_, DType::f32, 1);
  Values got = store.download(layer->prefill(tape, tokens(0, prompt), {}, state).value);
  for (std::int64_t t = prompt; t < length; ++t) {
    const Values one = store.download(layer->step(tape, tokens(t, 1), state).value);
    got.insert(got.end(), one.begin(), one.end());
  }
  EXPECT_LE(relative_error(got, whole), 1e-4);
  const auto behind = [](const Values& all) { return Values(all.begin() + prompt * width, all.end()); };
  EXPECT_LE(relative_error(behind(got), behind(whole)), 1e-4);
}

const std::vector<PromptCase> cases{
    {"mamba3", {{"d_model", 64}, {"d_state", 16}, {"headdim", 32}}},
    {"sessa", {{"D", 64}, {"n_heads", 4}}},
    {"gka", {{"hidden_size", 64}, {"num_heads", 2}, {"head_dim", 32}}},
    {"gka", {{"hidden_size", 64}, {"num_heads", 2}, {"head_dim", 32}, {"use_forgetting_gate_kk", false}}},
    {"ska", {{"d", 64}, {"H", 2}, {"r", 16}, {"P", 32}, {"mode", "recurrent"}}},
    {"ska", {{"d", 64}, {"H", 2}, {"r", 16}, {"P", 32}, {"mode", "recurrent"}, {"norm_scope", "token"}}}};

INSTANTIATE_TEST_SUITE_P(Layers, Prompts, ::testing::ValuesIn(cases),
                         [](const auto& at) { return at.param.kind + std::to_string(at.index); });

}  // namespace
}  // namespace afterglow::testing
