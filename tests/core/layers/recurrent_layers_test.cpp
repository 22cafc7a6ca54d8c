// What the layers have in common: step against forward, state sizes, start values, settings, independence of threads.
#include <gmock/gmock.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "core/layers/layer_kind.h"
#include "core/random/random.h"
#include "tests/support/counted_allocations.h"
#include "tests/support/host_values.h"
#include "tests/support/op_case.h"

namespace afterglow::testing {
namespace {

using nlohmann::json;

struct LayerCase {
  std::string name, kind;
  json config;
  std::int64_t width;
  double numbers_of_state;  ///< for one sequence
};

void PrintTo(const LayerCase& one, std::ostream* out) { *out << one.name; }

const std::vector<LayerCase> causal_layers{
    // 2 r^2 + P r + r + 1 numbers a head (Echo 3.5).
    {"ska", "ska", {{"d", 12}, {"H", 3}, {"r", 5}, {"P", 4}, {"mode", "recurrent"}}, 12, 3 * (2 * 25 + 20 + 5 + 1)},
    {"ska_ridge",
     "ska",
     {{"d", 12}, {"H", 1}, {"r", 5}, {"P", 4}, {"K", 0}, {"mode", "recurrent"}},
     12,
     2 * 25 + 20 + 5 + 1},
    {"ska_each_token_normed_and_gated",
     "ska",
     {{"d", 12}, {"H", 2}, {"r", 5}, {"P", 4}, {"mode", "recurrent"}, {"norm_scope", "token"}, {"gate", "sigmoid"}},
     12,
     2 * (2 * 25 + 20 + 5 + 1)},
    {"ska_written_by_the_root_and_read_through_a_gate",
     "ska",
     {{"d", 12},
      {"H", 2},
      {"r", 5},
      {"P", 4},
      {"mode", "recurrent"},
      {"write_gate", "sqrt"},
      {"read_gate", "sigmoid"},
      {"eta_range", {1.4, 1.7}},
      {"layer_scale", true}},
     12,
     2 * (2 * 25 + 20 + 5 + 1)},
    {"ska_clipped_and_written_asymmetrically",
     "ska",
     {{"d", 12},
      {"H", 2},
      {"r", 5},
      {"P", 4},
      {"mode", "recurrent"},
      {"norm_scope", "clip"},
      {"clip", 0.7},
      {"write_gate", "asymmetric"},
      {"read_gate", "sigmoid"}},
     12,
     2 * (2 * 25 + 20 + 5 + 1)},
    {"ska_lifted",
     "ska",
     {{"d", 12}, {"H", 2}, {"r", 5}, {"P", 4}, {"mode", "recurrent"}, {"invariant_lift", true}},
     12,
     2 * (2 * 25 + 20 + 5 + 1)},
    {"ska_without_its_own_token",
     "ska",
     {{"d", 12}, {"H", 2}, {"r", 5}, {"P", 4}, {"mode", "chunk"}, {"chunk", 1}, {"norm_scope", "prefix"}},
     12,
     2 * (2 * 25 + 20 + 5 + 1)},
    {"ska_of_lagged_convolved_values_without_its_own_token",
     "ska",
     {{"d", 12},
      {"H", 2},
      {"r", 5},
      {"P", 4},
      {"K", 0},
      {"mode", "chunk"},
      {"chunk", 1},
      {"norm_scope", "clip"},
      {"values", "lagged"},
      {"value_conv", 4},
      {"write_gate", "asymmetric"},
      {"read_gate", "sigmoid"}},
     12,
     2 * (2 * 25 + 20 + 3 * 4 + 5 + 1)},
    {"mamba", "mamba", {{"d_model", 12}, {"d_state", 7}}, 12, 24 * (7 + 3)},
    {"mamba_normed",
     "mamba",
     {{"d_model", 9}, {"d_state", 5}, {"d_conv", 1}, {"d_inner", 11}, {"dt_rank", 2}, {"scan_norm", "weighted"}},
     9,
     11 * 5},
    {"mamba_plain_norms_and_biases",
     "mamba",
     {{"d_model", 6}, {"d_state", 3}, {"scan_norm", "plain"}, {"bias", true}, {"conv_bias", false}},
     6,
     12 * (3 + 3)},
    {"mamba2_of_falcon",
     "mamba2",
     {{"d_model", 12},
      {"d_state", 7},
      {"d_inner", 16},
      {"headdim", 4},
      {"ngroups", 2},
      {"norm_per_group", true},
      {"norm_before_gate", true},
      {"bias", true},
      {"out_bias", false},
      {"in_scales", {{"gate", 0.5}, {"B", 1.5}, {"dt", 0.7}}}},
     12,
     16 * 7 + 3 * (16 + 28)},
    {"mamba2", "mamba2", {{"d_model", 12}, {"d_state", 7}, {"headdim", 8}}, 12, 24 * 7 + 3 * (24 + 14)},
    {"mamba2_wide_heads", "mamba2", {{"d_model", 9}, {"d_state", 5}, {"d_conv", 2}, {"headdim", 18}}, 9, 18 * 5 + 28},
    {"mamba2_no_convolution", "mamba2", {{"d_model", 4}, {"d_state", 3}, {"d_conv", 1}, {"headdim", 4}}, 4, 8 * 3},
    // P M numbers of the state, the last key and value, and an angle for every pair that turns, for every head.
    {"mamba3", "mamba3", {{"d_model", 12}, {"d_state", 7}, {"headdim", 8}}, 12, 3 * (8 * 7 + 7 + 8 + 1)},
    {"mamba3_still",
     "mamba3",
     {{"d_model", 9}, {"d_state", 5}, {"headdim", 18}, {"rope_fraction", 0}, {"is_outproj_norm", true}},
     9,
     18 * 5 + 5 + 18},
    {"mamba3_invariant",
     "mamba3",
     {{"d_model", 6}, {"d_state", 8}, {"headdim", 4}, {"rope_fraction", 1}, {"invariant_lift", true}},
     6,
     3 * (4 * 4 + 4 + 4 + 4)},
    {"mamba3_squares",
     "mamba3",
     {{"d_model", 6}, {"d_state", 4}, {"headdim", 6}, {"invariant_lift", true}, {"harmonics", true}},
     6,
     2 * (6 * 6 + 6 + 6 + 1)},
    {"linear_attention", "linear_attention", {{"d", 12}, {"n_heads", 3}}, 12, 3 * 16},
    // H and S of every head, and what three convolutions still see.
    {"gka",
     "gka",
     {{"hidden_size", 12}, {"num_heads", 2}, {"head_dim", 5}, {"chunk_size", 8}},
     12,
     2 * 2 * 25 + 3 * 3 * 10},
    {"gka_bare",
     "gka",
     {{"hidden_size", 9},
      {"num_heads", 3},
      {"head_dim", 4},
      {"chunk_size", 16},
      {"use_beta_gate", false},
      {"use_alpha_connection", false},
      {"use_forgetting_gate_kk", false},
      {"use_gate", false},
      {"use_v_conv", false},
      {"conv_size", 2}},
     9,
     2 * 3 * 16 + 2 * 12},
    {"gka_sketch", "gka", {{"hidden_size", 12}, {"num_heads", 2}, {"head_dim", 5}, {"sketch", 3}}, 12, 100 + 90},
    {"gka_no_convolution", "gka", {{"hidden_size", 4}, {"num_heads", 1}, {"head_dim", 3}, {"conv_size", 1}}, 4, 18},
    {"deltanet", "deltanet", {{"d", 12}, {"H", 2}, {"Dk", 5}, {"Dv", 7}}, 12, 2 * 35 + 3 * (10 + 10 + 14)},
    {"gated_deltanet", "gated_deltanet", {{"d", 12}, {"H", 3}}, 12, 3 * 16 + 3 * 36},
    {"kda", "kda", {{"d", 12}, {"H", 3}, {"Dk", 5}, {"gate_rank", 3}}, 12, 3 * 25 + 3 * 45},
    {"gla", "gla", {{"d", 12}, {"H", 2}, {"Dk", 5}, {"Dv", 7}, {"gate_rank", 3}, {"conv_size", 1}}, 12, 2 * 35},
    {"mamba2_groups",
     "mamba2",
     {{"d_model", 12},
      {"d_state", 5},
      {"headdim", 4},
      {"ngroups", 3},
      {"bias", true},
      {"conv_bias", false},
      {"norm_per_group", true},
      {"dt_ceiling", 0.9}},
     12,
     24 * 5 + 3 * (24 + 2 * 15)},
    {"mamba2_gate_alone",
     "mamba2",
     {{"d_model", 12}, {"d_state", 5}, {"headdim", 8}, {"rmsnorm", false}, {"d_conv", 1}},
     12,
     24 * 5},
    {"gated_deltanet_shared",
     "gated_deltanet",
     {{"d", 12},
      {"H", 4},
      {"Dk", 3},
      {"Dv", 5},
      {"query_heads", 2},
      {"key_heads", 2},
      {"qk_norm", "l2"},
      {"allow_neg_eigval", true}},
     12,
     4 * 15 + 3 * (6 + 6 + 20)},
    {"gla_shared",
     "gla",
     {{"d", 12},
      {"H", 4},
      {"Dk", 3},
      {"key_heads", 2},
      {"value_heads", 1},
      {"conv_size", 1},
      {"use_short_conv", true},
      {"clamp_min", -0.05},
      {"feature_map", "relu"},
      {"qk_silu", false}},
     12,
     4 * 9},
    {"deltanet_plain",
     "deltanet",
     {{"d", 12}, {"H", 2}, {"conv_size", 3}, {"qk_silu", false}, {"feature_map", "elu_plus_one"}, {"use_beta", false}},
     12,
     2 * 36 + 2 * 36},
    {"kalman",
     "kalman",
     {{"d", 12}, {"H", 2}, {"Dk", 5}, {"Dv", 7}, {"use_gate", false}},
     12,
     2 * (35 + 25) + 3 * (10 + 10 + 14)},
    {"koopman_mlp", "koopman_mlp", {{"d", 12}, {"dk", 10}, {"gated", true}}, 12, 0},
    {"swiglu", "swiglu", {{"d", 12}, {"d_ff", 10}}, 12, 0},
};

/// A layer with parameters that are all alive: start values plus noise, so that o_proj does not vanish.
struct LivingLayer {
  explicit LivingLayer(const std::string& kind, const json& config, DType dtype, int threads = 2, double noise = 0.3)
      : backend(make_cpu_backend(threads)), layer(make_layer(kind, config, ParameterScope(store, ""))) {
    store.allocate(*backend, dtype);
    store.initialise(3);
    Random random(4);
    for (const Parameter& parameter : store.all()) {
      Values values = store.download(parameter.value);
      for (double& value : values) value += noise * random.normal();
      store.upload(parameter, values);
    }
  }
  std::unique_ptr<Backend> backend;
  ParameterStore store;
  std::unique_ptr<Layer> layer;
  HostValues host{*backend};
  Arena arena{*backend};
  Tape tape{*backend, arena};
};

Values drawn_values(std::int64_t count, std::uint64_t seed) {
  Random random(seed);
  Values values(static_cast<std::size_t>(count));
  for (double& value : values) value = static_cast<float>(random.normal());
  return values;
}

class CausalLayers : public ::testing::TestWithParam<LayerCase> {};

/// A layer after some tokens of a batch, read at once or one by one: what its state holds, and the answers to the rest.
struct ReadOn {
  std::vector<std::pair<std::string, Values>> state;
  Values answers;
};
ReadOn read_on(const LayerCase& c, bool at_once) {
  constexpr std::int64_t batch = 2, length = 101, beginning = 83;  // several chunks, the last one not whole
  LivingLayer living(c.kind, c.config, DType::f64);
  if (c.kind == "gka") living.layer->set("gate_floor", 0.9);
  const Values x = normal_values(batch * length * c.width, 5);
  LayerState state = living.layer->make_state(*living.backend, DType::f64, batch);
  const auto tokens = [&](std::int64_t first, std::int64_t count) {
    living.tape.begin(false);
    Values rows;
    for (std::int64_t b = 0; b < batch; ++b) {
      const auto from = x.begin() + (b * length + first) * c.width;
      rows.insert(rows.end(), from, from + count * c.width);
    }
    return living.tape.constant(living.host.f64({batch, count, c.width}, rows));
  };
  if (at_once) living.layer->prefill(living.tape, tokens(0, beginning), {}, state);
  for (std::int64_t t = at_once ? beginning : 0; t < beginning; ++t)
    living.layer->step(living.tape, tokens(t, 1), state);
  EXPECT_EQ(state.position, beginning);
  ReadOn read;
  for (const auto& [name, tensor] : state.tensors()) read.state.emplace_back(name, living.host.read<double>(tensor));
  for (std::int64_t t = beginning; t < length; ++t) {
    const Values y = living.host.read<double>(living.layer->step(living.tape, tokens(t, 1), state).value);
    read.answers.insert(read.answers.end(), y.begin(), y.end());
  }
  return read;
}

TEST_P(CausalLayers, ABeginningThatIsReadAtOnceLeavesTheStateOfItsTokens) {
  const ReadOn stepped = read_on(GetParam(), false), at_once = read_on(GetParam(), true);
  ASSERT_EQ(at_once.state.size(), stepped.state.size());
  for (std::size_t i = 0; i < stepped.state.size(); ++i)
    EXPECT_LE(relative_error(at_once.state[i].second, stepped.state[i].second), 1e-10) << stepped.state[i].first;
  EXPECT_LE(relative_error(at_once.answers, stepped.answers), 1e-10);
}

// Of layers whose steps are not their forward pass, or whose state grows.
TEST(OtherLayers, ABeginningThatIsReadAtOnceLeavesTheStateOfItsTokens) {
  const json ska{{"d", 12}, {"H", 2}, {"r", 5}, {"P", 4}};
  std::vector<LayerCase> cases{
      {"attention", "attention", {{"d", 12}, {"n_heads", 3}, {"n_kv_heads", 1}}, 12, 0},
      {"sessa", "sessa", {{"D", 12}, {"n_heads", 3}}, 12, 0},
      {"sessa without feedback", "sessa", {{"D", 12}, {"n_heads", 3}, {"use_feedback", false}}, 12, 0},
      {"parallel",
       "parallel",
       {{"d", 12}, {"parts", {{{"kind", "attention"}, {"n_heads", 2}}, {{"kind", "mamba2"}, {"headdim", 8}}}}},
       12,
       0}};
  for (const json& more : {json{{"mode", "prefix"}}, json{{"mode", "prefix"}, {"values", "lagged"}, {"value_conv", 3}},
                           json{{"mode", "chunk"}, {"chunk", 16}, {"write_gate", "key_linear"}},
                           json{{"mode", "chunk"}, {"norm_scope", "prefix"}, {"read_gate", "sigmoid"}}}) {
    json config = ska;
    config.update(more);
    cases.push_back({"ska " + more.dump(), "ska", config, 12, 0});
  }
  for (const LayerCase& one : cases) {
    SCOPED_TRACE(one.name);
    const ReadOn stepped = read_on(one, false), at_once = read_on(one, true);
    for (std::size_t i = 0; i < stepped.state.size(); ++i)
      EXPECT_LE(relative_error(at_once.state[i].second, stepped.state[i].second), 1e-10) << stepped.state[i].first;
    EXPECT_LE(relative_error(at_once.answers, stepped.answers), 1e-10);
  }
}

TEST_P(CausalLayers, StepsEqualForward) {
  const LayerCase& c = GetParam();
  LivingLayer living(c.kind, c.config, DType::f64);
  const std::int64_t batch = 2, length = 37, width = c.width;
  const Values x = drawn_values(batch * length * width, 5);
  living.tape.begin(false);
  const Var input = living.tape.constant(living.host.f64({batch, length, width}, x));
  const Values want = living.host.read<double>(living.layer->forward(living.tape, input, {}).value);
  LayerState state = living.layer->make_state(*living.backend, DType::f64, batch);
  Values got(want.size());
  for (std::int64_t t = 0; t < length; ++t) {
    living.tape.begin(false);
    Values token;
    for (std::int64_t b = 0; b < batch; ++b)
      token.insert(token.end(), x.begin() + (b * length + t) * width, x.begin() + (b * length + t + 1) * width);
    const Var now = living.tape.constant(living.host.f64({batch, 1, width}, token));
    const Values y = living.host.read<double>(living.layer->step(living.tape, now, state).value);
    for (std::int64_t b = 0; b < batch; ++b)
      std::copy_n(y.begin() + b * width, width, got.begin() + (b * length + t) * width);
  }
  EXPECT_LE(relative_error(got, want), 1e-10);
  EXPECT_EQ(state.position, length);
  EXPECT_GT(relative_error(Values(want.size(), 0.0), want), 0.5);
}

TEST_P(CausalLayers, StateIsAsLargeAsItSays) {
  const LayerCase& c = GetParam();
  LivingLayer living(c.kind, c.config, DType::f32);
  const auto bytes = static_cast<std::int64_t>(c.numbers_of_state) * 4;
  for (const std::int64_t tokens : {1, 1'000'000}) EXPECT_EQ(living.layer->state_bytes(DType::f32, tokens), bytes);
  EXPECT_EQ(living.layer->make_state(*living.backend, DType::f32, 3).bytes(), static_cast<std::size_t>(3 * bytes));
}

TEST_P(CausalLayers, NumberOfThreadsDoesNotChangeBits) {
  const LayerCase& c = GetParam();
  const Values x = drawn_values(2 * 101 * c.width, 6), dy = drawn_values(2 * 101 * c.width, 7);
  std::vector<Values> first;
  for (const int threads : {1, 2}) {
    LivingLayer living(c.kind, c.config, DType::f32, threads);
    const auto upload = [&](const Values& values) {
      return living.host.f32({2, 101, c.width}, std::vector<float>(values.begin(), values.end()));
    };
    living.tape.begin(true);
    const Var input = living.tape.input(upload(x));
    const Var y = living.layer->forward(living.tape, input, {});
    living.tape.backward(y, upload(dy));
    std::vector<Values> all{living.store.download(y.value), living.store.download(living.tape.gradient_of(input))};
    for (const Parameter& parameter : living.store.all()) all.push_back(living.store.download(parameter.gradient));
    if (first.empty()) first = all;
    EXPECT_EQ(all, first) << threads << " threads";
  }
}

TEST_P(CausalLayers, RepeatedTrainingPassesAllocateNothing) {
  const LayerCase& c = GetParam();
  LivingLayer living(c.kind, c.config, DType::f32, 1);
  const Tensor x = living.host.f32({2, 37, c.width}, std::vector<float>(static_cast<std::size_t>(74 * c.width), 0.5f));
  std::int64_t before = 0;
  for (int pass = 0; pass < 5; ++pass) {
    if (pass == 2) before = allocations();
    living.tape.begin(true);
    living.tape.backward(living.layer->forward(living.tape, living.tape.input(x), {}), x);
  }
  EXPECT_EQ(allocations(), before);
}

INSTANTIATE_TEST_SUITE_P(All, CausalLayers, ::testing::ValuesIn(causal_layers),
                         [](const auto& instance) { return instance.param.name; });

// y_t = o_proj(D^-0.5 sum_{s <= t} (q_t . k_s) v_s), written with the projections taken as they are.
TEST(LinearAttentionLayer, SumsOverThePastWithoutNormalisation) {
  const std::int64_t length = 9, width = 6, heads = 2, inner = width / heads;
  LivingLayer living("linear_attention", {{"d", width}, {"n_heads", heads}}, DType::f64);
  const Values x = drawn_values(length * width, 8);
  const auto project = [&](const char* name, const Values& input) {
    const Values weight = living.store.download(living.store.find(name)->value);
    Values y(input.size(), 0.0);
    for (std::int64_t t = 0; t < length; ++t)
      for (std::int64_t i = 0; i < width; ++i)
        for (std::int64_t j = 0; j < width; ++j) y[t * width + i] += weight[i * width + j] * input[t * width + j];
    return y;
  };
  const Values q = project("q_proj.weight", x), k = project("k_proj.weight", x), v = project("v_proj.weight", x);
  Values heads_out(x.size(), 0.0);
  for (std::int64_t t = 0; t < length; ++t) {
    for (std::int64_t s = 0; s <= t; ++s) {
      for (std::int64_t first = 0; first < width; first += inner) {
        double score = 0.0;
        for (std::int64_t i = first; i < first + inner; ++i) score += q[t * width + i] * k[s * width + i];
        for (std::int64_t i = first; i < first + inner; ++i)
          heads_out[t * width + i] += score / std::sqrt(static_cast<double>(inner)) * v[s * width + i];
      }
    }
  }
  living.tape.begin(false);
  const Var input = living.tape.constant(living.host.f64({1, length, width}, x));
  const Values got = living.host.read<double>(living.layer->forward(living.tape, input, {}).value);
  EXPECT_LE(relative_error(got, project("o_proj.weight", heads_out)), 1e-13);
}

TEST(StartValues, SkaBeginsSilentWithOrthonormalKeys) {
  LivingLayer living("ska", {{"d", 16}, {"H", 2}, {"r", 4}, {"P", 8}}, DType::f64, 1, 0.0);
  EXPECT_THAT(living.store.download(living.store.find("o_proj.weight")->value), ::testing::Each(0.0));
  EXPECT_THAT(living.store.download(living.store.find("eta")->value), ::testing::Each(1.5));
  EXPECT_THAT(living.store.download(living.store.find("gamma_raw")->value), ::testing::Each(0.0));
  for (const char* name : {"k_proj.weight", "q_proj.weight"}) {
    const Values weight = living.store.download(living.store.find(name)->value);
    for (int i = 0; i < 8; ++i) {
      for (int j = 0; j <= i; ++j) {
        double product = 0.0;
        for (int c = 0; c < 16; ++c) product += weight[i * 16 + c] * weight[j * 16 + c];
        EXPECT_NEAR(product, i == j ? 1.0 : 0.0, 1e-12) << name;
      }
    }
  }
}

TEST(StartValues, KoopmanEigenvaluesLieInsideTheUnitDisk) {
  LivingLayer living("koopman_mlp", {{"d", 448}}, DType::f64, 1, 0.0);
  const Parameter& gamma = *living.store.find("gamma");
  EXPECT_EQ(gamma.shape[0], 1216 / 2);  // 448 * 8 / 3 = 1194.67, rounded up to 19 * 64
  const Values real = living.store.download(gamma.value);
  const Values imaginary = living.store.download(living.store.find("omega")->value);
  for (std::size_t i = 0; i < real.size(); ++i) EXPECT_LT(std::hypot(real[i], imaginary[i]), 1.0);
  EXPECT_LT(*std::min_element(imaginary.begin(), imaginary.end()), -0.35);
  EXPECT_GT(*std::max_element(imaginary.begin(), imaginary.end()), 0.35);
}

TEST(StartValues, MambaStepsAndRatesCoverTheOfficialRanges) {
  LivingLayer living("mamba2", {{"d_model", 256}, {"d_state", 4}, {"headdim", 2}}, DType::f64, 1, 0.0);
  for (const double bias : living.store.download(living.store.find("dt_bias")->value)) {
    const double step = std::log1p(std::exp(bias));
    EXPECT_GE(step, 1e-3 * (1 - 1e-9));
    EXPECT_LE(step, 1e-1 * (1 + 1e-9));
  }
  for (const double A_log : living.store.download(living.store.find("A_log")->value)) {
    EXPECT_GE(A_log, 0.0);
    EXPECT_LE(A_log, std::log(16.0));
  }
  EXPECT_THAT(living.store.download(living.store.find("D")->value), ::testing::Each(1.0));
  EXPECT_THAT(living.store.download(living.store.find("norm.weight")->value), ::testing::Each(1.0));
}

TEST(Settings, PowerAndRidgeActFromTheNextPassOn) {
  const json config{{"d", 8}, {"H", 2}, {"r", 3}, {"P", 4}};
  json other = config;
  other["K"] = 4;
  other["ridge"] = 0.25;
  LivingLayer changed("ska", config, DType::f64), made("ska", other, DType::f64);
  changed.layer->set("K", 4);
  changed.layer->set("ridge", 0.25);
  const Values x = drawn_values(20 * 8, 9);
  const auto output = [&](LivingLayer& living) {
    living.tape.begin(false);
    const Var input = living.tape.constant(living.host.f64({1, 20, 8}, x));
    return living.host.read<double>(living.layer->forward(living.tape, input, {}).value);
  };
  EXPECT_EQ(output(changed), output(made));
  EXPECT_EQ(changed.layer->settings()[0].field.value, 4.0);
  changed.layer->set("K", 2);
  EXPECT_GT(relative_error(output(changed), output(made)), 1e-3);
}

}  // namespace
}  // namespace afterglow::testing
