// Models from JSON: parameter counts, names, messages, and the recurrent form against the whole sequence.
#include "core/models/model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "core/io/error.h"
#include "core/layers/host_values.h"
#include "core/recipe/recipe.h"

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

// Echo 4.2: Mamba-2, and with attention, as large as Echo-50M, of its width and with as many blocks.
TEST(Model, TheFiftyMillionsOfTheRecallGridAreMatched) {
  const auto echo = static_cast<double>(count_of("echo-50m"));
  for (const char* name : {"mamba2-50m", "mamba2-attn-50m"}) {
    EXPECT_NEAR(static_cast<double>(count_of(name)) / echo, 1, 0.01) << name;
    ParameterStore store;
    const Model model(parse_recipe(find_preset(name).text, name).model, store);
    EXPECT_EQ(model.width(), 448);
    ASSERT_EQ(model.branches().size(), 2u * 16);
    for (std::size_t block = 0; block < 16; ++block) {
      const bool is_attention = block % 4 == 3 && std::string(name) == "mamba2-attn-50m";
      EXPECT_EQ(model.branches()[2 * block].layer->kind(), is_attention ? "attention" : "mamba2") << block;
      EXPECT_EQ(model.branches()[2 * block + 1].layer->kind(), "swiglu") << block;
    }
  }
}

// Echo 3.4: N 24, d 768, SKA at 8 and 16 with r 48 and H 12, Mamba-2 elsewhere, the first and the last among them.
TEST(Model, EchoWithAHundredAndEightyMillionParametersHasTheLayersOfThePaper) {
  const json config = parse_recipe(find_preset("echo-180m").text, "echo-180m").model;
  ParameterStore store;
  const Model model(config, store);  // sizes alone: nothing is allocated
  ASSERT_EQ(model.branches().size(), 2u * 24);
  for (std::size_t block = 0; block < 24; ++block) {
    EXPECT_EQ(model.branches()[2 * block].layer->kind(), block == 8 || block == 16 ? "ska" : "mamba2") << block;
    EXPECT_EQ(model.branches()[2 * block + 1].layer->kind(), "koopman_mlp") << block;
  }
  EXPECT_EQ(model.width(), 768);
  EXPECT_EQ(model.branches()[16].layer->heads(), 12);
  EXPECT_EQ(model.branches()[16].layer->state_bytes(DType::f32, 1 << 17), 12 * (2 * 48 * 48 + 64 * 48 + 48 + 1) * 4);
  EXPECT_NEAR(static_cast<double>(store.count()), 180e6, 9e6);
  // The variants of section 3.4: other MLPs, and no SKA.
  json swiglu = config, plain = config;
  for (json& block : swiglu["blocks"]) block["mlp"] = {{"kind", "swiglu"}, {"d_ff", 2048}};
  for (json& block : plain["blocks"]) {
    block["mlp"] = {{"kind", "swiglu"}, {"d_ff", 2048}};
    if (block["mixer"]["kind"] == "ska") block["mixer"] = plain["blocks"][0]["mixer"];
  }
  ParameterStore second, first;
  const Model with_swiglu(swiglu, second), without_ska(plain, first);
  // Three matrices in the place of two and the eigenvalues.
  EXPECT_EQ(second.count() - store.count(), 24 * (768 * 2048 - 2048));
  EXPECT_GT(first.count(), second.count());
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
  using ::testing::AllOf;
  using ::testing::HasSubstr;
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
  constexpr std::int64_t length = 5200, vocabulary = 4096, most = length / 5 * 4;
  ASSERT_TRUE(has_wide_head(most, vocabulary));
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
  const auto pass = [&](bool is_whole, std::int64_t max_answers) {
    tape.begin(true);
    const CrossEntropy found = is_whole ? cross_entropy(tape, model.forward(tape, tokens, {}), wanted)
                                        : model.forward_loss(tape, tokens, {}, wanted, max_answers);
    EXPECT_EQ(found.probabilities.defined(), is_whole);
    tape.backward(found.loss, Tensor(&one, {1}, DType::f32));
    std::vector<double> numbers = store.download(store.find("embedding.weight")->gradient);
    numbers.push_back(*found.loss.value.as<float>());
    numbers.push_back(*found.correct.as<std::int32_t>());
    numbers.push_back(*found.counted.as<std::int32_t>());
    return numbers;
  };
  const std::vector<double> whole = pass(true, length);
  for (const std::int64_t max_answers : {length, most}) {
    const std::vector<double> chunked = pass(false, max_answers);
    double difference = 0, size = 0;
    for (std::size_t i = 0; i + 3 < whole.size(); ++i) {
      difference += (chunked[i] - whole[i]) * (chunked[i] - whole[i]);
      size += whole[i] * whole[i];
    }
    EXPECT_LE(std::sqrt(difference / size), 1e-5);
    EXPECT_NEAR(chunked.end()[-3], whole.end()[-3], 1e-6 * whole.end()[-3]);
    EXPECT_EQ(chunked.end()[-2], whole.end()[-2]);
    EXPECT_EQ(chunked.end()[-1], most);
  }
}

/// After the last layer that mixes tokens only answered rows are computed: loss, hits and all gradients are those of
/// the whole pass, whichever layers it has, and whether or not there are as many answers as there may be.
TEST(Model, RowsThatNobodyAsksForChangeNothing) {
  const auto backend = make_cpu_backend(2);
  const std::string mixer = R"({"kind": "attention", "n_heads": 2})";
  const std::string deep = R"("mlp": {"kind": "swiglu", "d_ff": 24}}, {"mlp": {"kind": "koopman_mlp", "dk": 16}})";
  for (const std::string& blocks :
       {"{\"mixer\": " + mixer + ", " + deep, "{\"mixer\": " + mixer + "}", std::string()}) {
    ParameterStore store;
    Model model(json::parse(R"({"d_model": 16, "vocab": 16, "blocks": [)" + blocks + "]}"), store);
    store.allocate(*backend, DType::f64);
    store.initialise(11);
    std::vector<std::int32_t> ids;
    for (int t = 0; t < 40; ++t) ids.push_back((t * 7 + 3) % 16);
    const Tensor tokens(ids.data(), {2, 20}, DType::i32);
    Arena arena(*backend);
    arena.set_poison(true);
    Tape tape(*backend, arena);
    double one = 1;
    const auto pass = [&](std::vector<std::int32_t> targets, std::int64_t max_answers) {
      const Tensor wanted(targets.data(), {2, 20}, DType::i32);
      tape.begin(true);
      const CrossEntropy found = max_answers == 0 ? cross_entropy(tape, model.forward(tape, tokens, {}), wanted)
                                                  : model.forward_loss(tape, tokens, {}, wanted, max_answers);
      if (max_answers > 0) {
        EXPECT_EQ(model.last_hidden().rows(), std::min<std::int64_t>(max_answers, 40));
      }
      tape.backward(found.loss, Tensor(&one, {1}, DType::f64));
      std::vector<double> numbers{*found.loss.value.as<double>(), double(*found.correct.as<std::int32_t>()),
                                  double(*found.counted.as<std::int32_t>())};
      for (const Parameter& parameter : store.all()) {
        const std::vector<double> own = store.download(parameter.gradient);
        numbers.insert(numbers.end(), own.begin(), own.end());
      }
      return numbers;
    };
    for (const int answers : {0, 1, 5, 39}) {
      std::vector<std::int32_t> targets(40, -1);
      for (int i = 0; i < answers; ++i) targets[static_cast<std::size_t>(39 - i * 40 / (answers + 1))] = i % 16;
      const auto count = 40 - std::ranges::count(targets, -1);
      const std::vector<double> whole = pass(targets, 0);
      for (const std::int64_t most : {std::max<std::int64_t>(1, count), std::int64_t{39}, std::int64_t{40}}) {
        EXPECT_THAT(pass(targets, most), ::testing::Pointwise(::testing::DoubleNear(1e-13), whole))
            << blocks << " " << answers << " of " << most;
      }
    }
    const TapeObserver observer(tape, {.form = PassForm::unfused}, {});
    tape.begin(false);
    const std::vector<std::int32_t> last = [] {
      std::vector<std::int32_t> all(40, -1);
      all.back() = 3;
      return all;
    }();
    model.forward_loss(tape, tokens, {}, Tensor(const_cast<std::int32_t*>(last.data()), {2, 20}, DType::i32), 1);
    EXPECT_EQ(model.last_hidden().rows(), 40);
  }
}

/// With memory of spent values handed out again, and poisoned before that, as soon as anything is spent.
TEST(Model, GradientsAreTheSameInRecycledMemory) {
  const auto backend = make_cpu_backend(2);
  ParameterStore store;
  Model model(json::parse(R"({"d_model": 16, "vocab": 16, "tie_embedding": true, "blocks": [
      {"mixer": {"kind": "mamba2", "d_state": 4, "expand": 2, "headdim": 8}, "mlp": {"kind": "swiglu", "d_ff": 24}},
      {"mixer": {"kind": "attention", "n_heads": 2}, "mlp": {"kind": "koopman_mlp", "dk": 16}},
      {"mixer": {"kind": "ska", "H": 2, "r": 6, "P": 8, "K": 2, "mode": "prefix"}, "mlp": {"kind": "swiglu", "d_ff": 24}}]})"),
              store);
  store.allocate(*backend, DType::f64);
  store.initialise(11);
  std::vector<std::int32_t> ids;
  for (int t = 0; t < 40; ++t) ids.push_back((t * 7 + 3) % 16);
  const Tensor tokens(ids.data(), {2, 20}, DType::i32);
  double one = 1;
  std::vector<std::size_t> used;
  const auto gradients = [&](std::size_t recycle_from) {
    Arena arena(*backend);
    arena.set_poison(true);
    Tape tape(*backend, arena);
    tape.begin(true);
    tape.backward(model.forward_loss(tape, tokens, {}, tokens, 40).loss, Tensor(&one, {1}, DType::f64), recycle_from);
    used.push_back(arena.used());
    return store.download(store.gradients());
  };
  const std::vector<double> recycled = gradients(1), kept = gradients(0);
  EXPECT_EQ(recycled, kept);
  EXPECT_LT(static_cast<double>(used[0]), 0.7 * static_cast<double>(used[1]));
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

// x becomes (1 - g) x + g y: closed, the block's mixer is not there; open, its answer stands alone.
TEST(Model, ABlendedMixerLeavesTheStreamOrTakesItsPlace) {
  const auto stream = [](const json& block, double bias) {
    const auto backend = make_cpu_backend(1);
    ParameterStore store;
    Model model({{"d_model", 8}, {"vocab", 16}, {"blocks", json::array({block})}}, store);
    store.allocate(*backend, DType::f64);
    store.initialise(3);
    if (const Parameter* start = store.find("layers.0.blend.bias")) {
      EXPECT_NEAR(store.download(start->value).front(), -2, 1e-12);
      store.upload(*start, std::vector<double>(8, bias));
    }
    Arena arena(*backend);
    Tape tape(*backend, arena);
    tape.begin(false);
    std::vector<double> x(5 * 8);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<double>(i));
    const Var in = tape.constant(to_device(tape, {1, 5, 8}, DType::f64, x));
    return std::pair{x, to_host(*backend, model.forward_branches(tape, in, {}, 0, 1).value)};
  };
  const json mixer{{"kind", "linear_attention"}, {"n_heads", 2}};
  const auto [x, plain] = stream({{"mixer", mixer}}, 0);
  const auto closed = stream({{"mixer", mixer}, {"blend", -2}}, -60).second,
             open = stream({{"mixer", mixer}, {"blend", -2}}, 60).second;
  for (std::size_t i = 0; i < x.size(); ++i) {
    EXPECT_NEAR(closed[i], x[i], 1e-12);
    EXPECT_NEAR(open[i], plain[i] - x[i], 1e-12);
  }
}

TEST(Model, PrefixFormEqualsTheRecurrentOneAtTheLastToken) {
  compare_forms(json::parse(R"({"d_model": 16, "vocab": 16, "blocks": [
      {"mixer": {"kind": "mamba2", "d_state": 4, "expand": 2, "headdim": 8}, "mlp": {"kind": "swiglu", "d_ff": 24}},
      {"mixer": {"kind": "ska", "H": 2, "r": 6, "P": 8, "K": 2, "mode": "prefix"}, "mlp": {"kind": "swiglu", "d_ff": 24}}]})"),
                23);
}

/// After a prompt that is read at once the answers to the rest, and those to the prompt itself.
struct Read {
  std::vector<double> prompt, rest;
};
Read read_with_prompt(const json& config, int length, int prompt) {
  const auto backend = make_cpu_backend(1);
  ParameterStore store;
  Model model(config, store);
  store.allocate_values(*backend, DType::f64);
  store.initialise(11);
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
  ModelState state = model.make_state(*backend, DType::f64, 1);
  Read read;
  const auto keep = [&](const Var& logits, std::vector<double>& into) {
    const double* numbers = logits.value.as<double>();
    into.insert(into.end(), numbers, numbers + logits.value.elements());
  };
  tape.begin(false);
  if (prompt > 0) keep(model.prefill(tape, Tensor(ids.data(), {1, prompt}, DType::i32), {}, state), read.prompt);
  EXPECT_EQ(state.position, prompt);
  for (int t = prompt; t < length; ++t) {
    tape.begin(false);
    keep(model.step(tape, Tensor(ids.data() + t, {1, 1}, DType::i32), state), read.rest);
  }
  return read;
}

TEST(Model, GoesOnBehindAPromptAsIfItHadReadItTokenByToken) {
  const json config = json::parse(R"({"d_model": 16, "vocab": 16, "blocks": [
      {"mixer": {"kind": "mamba2", "d_state": 4, "expand": 2, "headdim": 8}, "mlp": {"kind": "swiglu", "d_ff": 24}},
      {"mixer": {"kind": "attention", "n_heads": 2}, "mlp": {"kind": "koopman_mlp", "dk": 16}},
      {"mixer": {"kind": "ska", "H": 2, "r": 6, "P": 8, "K": 2, "mode": "recurrent"}},
      {"mixer": {"kind": "ska", "H": 2, "r": 6, "P": 8, "K": 2, "mode": "recurrent"}}]})");
  const Read whole = read_with_prompt(config, 17, 0), parted = read_with_prompt(config, 17, 11);
  ASSERT_EQ(parted.prompt.size(), 11u * 16);
  for (std::size_t i = 0; i < parted.prompt.size(); ++i) EXPECT_NEAR(parted.prompt[i], whole.rest[i], 1e-7) << i;
  for (std::size_t i = 0; i < parted.rest.size(); ++i)
    EXPECT_NEAR(parted.rest[i], whole.rest[parted.prompt.size() + i], 1e-7) << i;
}

// In prefix mode every token of the prompt is answered from all of it, and the layers above remember that.
TEST(Model, APromptInPrefixModeIsRememberedOtherwiseAboveTheFirstSka) {
  json config = json::parse(R"({"d_model": 16, "vocab": 16, "blocks": [
      {"mixer": {"kind": "mamba2", "d_state": 4, "expand": 2, "headdim": 8}},
      {"mixer": {"kind": "ska", "H": 2, "r": 6, "P": 8, "K": 2, "mode": "prefix"}}]})");
  const auto furthest = [&] {
    const Read whole = read_with_prompt(config, 17, 0), parted = read_with_prompt(config, 17, 11);
    double largest = 0;
    for (std::size_t i = 0; i < parted.rest.size(); ++i)
      largest = std::max(largest, std::abs(parted.rest[i] - whole.rest[parted.prompt.size() + i]));
    return largest;
  };
  EXPECT_LT(furthest(), 1e-7);
  config["blocks"].push_back(config["blocks"][1]);
  EXPECT_GT(furthest(), 1e-4);
}

}  // namespace
}  // namespace afterglow
