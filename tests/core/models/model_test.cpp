// Models from JSON: parameter counts, names, messages, and the recurrent form against the whole sequence.
#include "core/models/model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "core/engine/recipe/recipe.h"
#include "core/io/error.h"

namespace afterglow {
namespace {

using nlohmann::json;

std::int64_t count_of(const std::string& preset) {
  ParameterStore store;
  const Model model(parse_recipe(find_preset(preset).text, preset).model, store);
  return store.count();
}

TEST(Model, ReferenceModelsHaveTheSizesOfThePaper) {
  // Echo's transfer study names about 1.1 M, 1.0 M and 0.98 M; counted from SPEC's sizes with an untied head.
  EXPECT_EQ(count_of("ssm"), 1042224);
  EXPECT_EQ(count_of("ssm-ska"), 947688);
  EXPECT_EQ(count_of("ssm-attn"), 964056);
  EXPECT_NEAR(static_cast<double>(count_of("echo-50m")), 50e6, 0.5e6);
}

TEST(Model, NamesAreThoseOfPyTorch) {
  ParameterStore store;
  const Model model(parse_recipe(find_preset("tiny").text, "tiny").model, store);
  std::set<std::string> names;
  for (const Parameter& parameter : store.all()) names.insert(parameter.name);
  for (const char* name : {"embedding.weight", "layers.0.mixer_norm.weight", "layers.0.mamba2.in_proj.weight",
                           "layers.1.ska.k_proj.weight", "layers.1.mlp_norm.weight", "layers.1.swiglu.w_gate.weight",
                           "norm.weight", "head.weight"}) {
    EXPECT_TRUE(names.count(name)) << name;
  }
}

TEST(Model, HoldsTheNetworkOfAProofInsteadOfBlocks) {
  const auto backend = make_cpu_backend(1);
  ParameterStore store;
  const Model model(json::parse(R"({"d_model": 8, "vocab": 4, "retrieval": {"tokens": 16, "jumps": 1}})"), store);
  ASSERT_EQ(model.branches().size(), 13u);
  store.allocate(*backend, DType::f64);
  store.initialise(1);
  const Parameter* gain = store.find("layers.12.sessa.mixer.gamma_bias");
  ASSERT_NE(gain, nullptr);
  EXPECT_NEAR(0.9999 * std::tanh(store.download(gain->value).front()), 0.5, 1e-12) << "1 - beta, whatever the seed";
}

std::string message_of(const char* text) {
  ParameterStore store;
  try {
    const Model model(json::parse(text), store);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Model, MessagesNameBlockAndField) {
  using testing::AllOf;
  using testing::HasSubstr;
  EXPECT_THAT(message_of(R"({"vocab": 8, "blocks": []})"), HasSubstr("d_model"));
  EXPECT_THAT(message_of(R"({"d_model": 8, "vocab": 8})"), HasSubstr("blocks"));
  EXPECT_THAT(message_of(R"({"d_model": 8, "vocab": 8, "blocks": [], "retrieval": {}})"), HasSubstr("take"));
  EXPECT_THAT(message_of(R"({"d_model": 4, "vocab": 8, "retrieval": {}})"), HasSubstr("at least 8 channels"));
  EXPECT_THAT(message_of(R"({"d_model": 8, "vocab": 8, "retrieval": {"beta": 2}})"), HasSubstr("retrieval"));
  EXPECT_THAT(message_of(R"({"d_model": 8, "vocab": 8, "blocks": [{"mixer": {"kind": "skaa"}}]})"),
              AllOf(HasSubstr("blocks[0].mixer"), HasSubstr("ska")));
  EXPECT_THAT(message_of(R"({"d_model": 8, "vocab": 8, "blocks": [{}, {"mlp": {"kind": "swiglu", "d_ff": -3}}]})"),
              AllOf(HasSubstr("blocks[1].mlp"), HasSubstr("d_ff")));
  EXPECT_THAT(message_of(R"({"d_model": 8, "vocab": 8, "blocks": [{"mixr": {"kind": "ska"}}]})"),
              AllOf(HasSubstr("mixr"), HasSubstr("mixer")));
  EXPECT_THAT(message_of(R"({"d_model": 8, "vocab": 8, "blocks": [
                {"mlp": {"kind": "swiglu", "d_ff": 4}, "repeat": 1000},
                {"mlp": {"kind": "swiglu", "d_ff": 4}, "repeat": 1000}]})"),
              AllOf(HasSubstr("2000 blocks"), HasSubstr("1024"), HasSubstr("repeat")));
  EXPECT_THAT(message_of(R"({"d_model": 1e9, "vocab": 8, "blocks": []})"), HasSubstr("d_model"));
  EXPECT_THAT(message_of(R"({"d_model": 8, "vocab": 8, "blocks": [{"mixer": 3}]})"), HasSubstr("kind"));
}

/// One head over a wide vocabulary: the loss, its hits and the gradients without the logits are those with them.
TEST(Model, AWideHeadAnswersWithoutItsLogits) {
  constexpr std::int64_t length = 4100, vocabulary = 4096;
  ASSERT_TRUE(has_wide_head(length, vocabulary));
  const auto backend = make_cpu_backend(2);
  ParameterStore store;
  Model model(json::parse(R"({"d_model": 4, "vocab": 4096, "tie_embedding": true, "blocks": []})"), store);
  store.allocate(*backend, DType::f32);
  store.initialise(11);
  std::vector<std::int32_t> ids, targets;
  for (std::int64_t t = 0; t < length; ++t) {
    ids.push_back(static_cast<std::int32_t>(t * 7 % vocabulary));
    targets.push_back(t % 5 == 0 ? -1 : ids.back());
  }
  const Tensor tokens(ids.data(), {1, length}, DType::i32), wanted(targets.data(), {1, length}, DType::i32);
  Arena arena(*backend);
  Tape tape(*backend, arena);
  float one = 1;
  const auto pass = [&](bool is_whole, std::int64_t most_answers) {
    tape.begin(true);
    const CrossEntropy found = is_whole ? cross_entropy(tape, model.forward(tape, tokens, {}), wanted)
                                        : model.forward_loss(tape, tokens, {}, wanted, most_answers);
    EXPECT_EQ(found.probabilities.defined(), is_whole);
    tape.backward(found.loss, Tensor(&one, {1}, DType::f32));
    std::vector<double> numbers = store.download(store.find("embedding.weight")->gradient);
    numbers.push_back(*found.loss.value.as<float>());
    numbers.push_back(*found.correct.as<std::int32_t>());
    numbers.push_back(*found.counted.as<std::int32_t>());
    return numbers;
  };
  const std::vector<double> whole = pass(true, length);
  for (const std::int64_t most_answers : {length, std::int64_t{3280}}) {
    const std::vector<double> chunked = pass(false, most_answers);
    double difference = 0, size = 0;
    for (std::size_t i = 0; i + 3 < whole.size(); ++i) {
      difference += (chunked[i] - whole[i]) * (chunked[i] - whole[i]);
      size += whole[i] * whole[i];
    }
    EXPECT_LE(std::sqrt(difference / size), 1e-5);
    EXPECT_NEAR(chunked.end()[-3], whole.end()[-3], 1e-6 * whole.end()[-3]);
    EXPECT_EQ(chunked.end()[-2], whole.end()[-2]);
    EXPECT_EQ(chunked.end()[-1], 3280);
  }
}

TEST(Model, ANarrowHeadKeepsItsBits) {
  EXPECT_FALSE(has_wide_head(4096 * 64, 128)) << "tiny, at any batch";
  EXPECT_FALSE(has_wide_head(512, 32000)) << "echo-50m, two sequences";
  EXPECT_TRUE(has_wide_head(1024, 32000)) << "echo-50m as it is";
}

/// Logits of the last position by the whole sequence and by single tokens.
void compare_forms(const json& config, int length) {
  const auto backend = make_cpu_backend(2);
  ParameterStore store;
  Model model(config, store);
  store.allocate(*backend, DType::f64);
  store.initialise(11);
  // SKA starts with a silent output; give it a voice so that the comparison hears it.
  for (Parameter& parameter : store.all()) {
    if (parameter.name.find("o_proj") == std::string::npos) continue;
    std::vector<double> values(static_cast<std::size_t>(parameter.shape.elements()));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = 0.1 * std::sin(static_cast<double>(i));
    store.upload(parameter, values);
  }
  std::vector<std::int32_t> ids(static_cast<std::size_t>(length));
  for (int t = 0; t < length; ++t) ids[static_cast<std::size_t>(t)] = (t * 7 + 3) % 16;
  Arena arena(*backend);
  Tape tape(*backend, arena);
  tape.begin(false);
  const Var logits = model.forward(tape, Tensor(ids.data(), {1, length}, DType::i32), {});
  const double* last = logits.value.as<double>() + (length - 1) * 16;
  const std::vector<double> whole(last, last + 16);
  ModelState state = model.make_state(*backend, DType::f64, 1);
  std::vector<double> stepped(16);
  for (int t = 0; t < length; ++t) {
    tape.begin(false);
    const Var out = model.step(tape, Tensor(ids.data() + t, {1, 1}, DType::i32), state);
    backend->download(stepped.data(), out.value);
  }
  for (int i = 0; i < 16; ++i)
    EXPECT_NEAR(stepped[static_cast<std::size_t>(i)], whole[static_cast<std::size_t>(i)], 1e-7) << "logit " << i;
}

TEST(Model, StepEqualsForwardForCausalStacks) {
  compare_forms(json::parse(R"({"d_model": 16, "vocab": 16, "blocks": [
      {"mixer": {"kind": "mamba2", "d_state": 4, "expand": 2, "headdim": 8}, "mlp": {"kind": "swiglu", "d_ff": 24}},
      {"mixer": {"kind": "attention", "n_heads": 2}, "mlp": {"kind": "koopman_mlp", "dk": 16}},
      {"mixer": {"kind": "linear_attention", "n_heads": 2}},
      {"mixer": {"kind": "ska", "H": 2, "r": 6, "P": 8, "K": 2, "mode": "recurrent"}}]})"),
                19);
}

TEST(Model, PrefixFormEqualsTheRecurrentOneAtTheLastToken) {
  compare_forms(json::parse(R"({"d_model": 16, "vocab": 16, "blocks": [
      {"mixer": {"kind": "mamba2", "d_state": 4, "expand": 2, "headdim": 8}, "mlp": {"kind": "swiglu", "d_ff": 24}},
      {"mixer": {"kind": "ska", "H": 2, "r": 6, "P": 8, "K": 2, "mode": "prefix"}, "mlp": {"kind": "swiglu", "d_ff": 24}}]})"),
                23);
}

}  // namespace
}  // namespace afterglow
