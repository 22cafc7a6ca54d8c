// Sessa as a layer and as a block of a model.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "core/io/error.h"
#include "core/layers/layer_kind.h"
#include "core/models/model.h"
#include "core/random/random.h"
#include "tests/support/counted_allocations.h"
#include "tests/support/host_values.h"
#include "tests/support/op_case.h"

namespace afterglow::testing {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

struct LivingSessa {
  explicit LivingSessa(const json& config, int threads = 2)
      : backend(make_cpu_backend(threads)), layer(make_layer("sessa", config, ParameterScope(store, ""))) {
    store.allocate(*backend, DType::f64);
    store.initialise(3);
  }
  Values output(const Values& x, std::int64_t length, std::int64_t width) {
    tape.begin(false);
    return host.read<double>(layer->forward(tape, tape.constant(host.f64({1, length, width}, x)), {}).value);
  }
  Values capture(const std::string& name) {
    for (const Capture& capture : tape.captures()) {
      if (capture.name == name) return host.read<double>(capture.value);
    }
    return {};
  }
  std::unique_ptr<Backend> backend;
  ParameterStore store;
  std::unique_ptr<Layer> layer;
  HostValues host{*backend};
  Arena arena{*backend};
  Tape tape{*backend, arena};
};

Values normal_values(std::int64_t count) {
  Random random(9);
  Values values(static_cast<std::size_t>(count));
  for (double& value : values) value = random.normal();
  return values;
}

const json small{{"D", 12}, {"n_heads", 3}, {"n_kv_heads", 1}};

json with(const char* key, const json& value) {
  json config = small;
  config[key] = value;
  return config;
}

TEST(SessaLayer, WithoutFeedbackIsTheSameAsWithoutGain) {
  const Values x = normal_values(40 * 12);
  LivingSessa feedback(small), ablated(with("use_feedback", false));
  EXPECT_GT(relative_error(ablated.output(x, 40, 12), feedback.output(x, 40, 12)), 1e-4);
  feedback.layer->set("gamma_max", 0.0);
  EXPECT_LE(relative_error(ablated.output(x, 40, 12), feedback.output(x, 40, 12)), 1e-14);
  EXPECT_LT(ablated.store.count(), feedback.store.count());
  EXPECT_EQ(ablated.layer->settings().size(), 1u);
  EXPECT_EQ(feedback.layer->settings().size(), 3u);
}

TEST(SessaLayer, TheIdentityMayStandForTheNorm) {
  const Values x = normal_values(20 * 12);
  Values normed = x;
  for (std::size_t row = 0; row < 20; ++row) {
    double mean = 0, square = 0;
    for (std::size_t c = 0; c < 12; ++c) mean += x[row * 12 + c] / 12;
    for (std::size_t c = 0; c < 12; ++c) square += std::pow(x[row * 12 + c] - mean, 2) / 12;
    for (std::size_t c = 0; c < 12; ++c) normed[row * 12 + c] = (x[row * 12 + c] - mean) / std::sqrt(square + 1e-5);
  }
  LivingSessa with_norm(small), identity(with("use_norm", false));
  EXPECT_EQ(identity.store.count() + 24, with_norm.store.count()) << "there are no weights of a norm";
  Values a = with_norm.output(x, 20, 12), b = identity.output(normed, 20, 12);
  for (std::size_t i = 0; i < a.size(); ++i) {
    a[i] -= x[i];
    b[i] -= normed[i];
  }
  EXPECT_LE(relative_error(b, a), 1e-12) << "what the block adds, of the same normed input";
  EXPECT_GT(relative_error(identity.output(x, 20, 12), with_norm.output(x, 20, 12)), 1e-3);
}

TEST(SessaLayer, TemperatureMakesRoutingUniform) {
  LivingSessa living(small);
  const Capturing capturing(living.tape);
  living.layer->set("feedback_temperature", 1e6);
  living.output(normal_values(30 * 12), 30, 12);
  const Values alpha = living.capture("alpha_fb");
  for (int t = 0; t < 30; ++t) {
    for (int j = 0; j < 30; ++j) EXPECT_NEAR(alpha[t * 30 + j], j < t ? 1.0 / t : 0.0, 1e-5);
  }
}

// The captured Jacobian is what the solve does: s = J f for every feature.
TEST(SessaLayer, CapturedJacobianTakesFToS) {
  LivingSessa living(small);
  const Capturing capturing(living.tape);
  living.output(normal_values(65 * 12), 65, 12);
  const Values jacobian = living.capture("solve_jacobian"), f = living.capture("f");
  Values want(f.size(), 0.0);
  for (int t = 0; t < 65; ++t)
    for (int j = 0; j <= t; ++j)
      for (int e = 0; e < 12; ++e) want[t * 12 + e] += jacobian[t * 65 + j] * f[j * 12 + e];
  EXPECT_LE(relative_error(living.capture("s"), want), 1e-13);
}

// Training too: attention and the feedback solve keep no T x T matrix for their gradients.
TEST(SessaLayer, TakesMemoryLinearInTheLength) {
  LivingSessa sessa(small, 1);  // a second thread makes its scratch memory whenever it first takes part
  std::vector<std::size_t> held;
  for (const std::int64_t length : {512, 1024, 2048}) {
    const Tensor x = sessa.host.f64({1, length, 12}, normal_values(length * 12));
    for (int pass = 0; pass < 3; ++pass) {  // in the last one the arena has grown
      max_allocation();
      sessa.tape.begin(true);
      const Var y = sessa.layer->forward(sessa.tape, sessa.tape.input(x), {});
      sessa.tape.backward(y, x);
    }
    held.push_back(sessa.arena.used());
    const auto matrix = static_cast<std::size_t>(length * length) * sizeof(double);
    EXPECT_LT(max_allocation(), matrix / 8) << length;
  }
  EXPECT_LE(held[2] - held[1], 2 * (held[1] - held[0]) + 4096);
  EXPECT_LT(held[2], 2048u * 2048u * sizeof(double) / 2);
}

TEST(SessaLayer, StateGrowsWithEveryToken) {
  LivingSessa living(small), ablated(with("use_feedback", false));
  // Keys and values of one head of 4; feedback keys and solutions of 12.
  EXPECT_EQ(living.layer->state_bytes(DType::f32, 100), 100 * (2 * 4 + 2 * 12) * 4);
  EXPECT_EQ(ablated.layer->state_bytes(DType::f32, 100), 100 * 2 * 4 * 4);
}

TEST(SessaLayer, RefusesWhatCannotBe) {
  const auto message = [](const json& config) {
    try {
      LivingSessa living(config);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  EXPECT_THAT(message(with("n_heads", 5)), HasSubstr("multiple of n_heads"));
  EXPECT_THAT(message(with("n_kv_heads", 2)), HasSubstr("n_kv_heads"));
  EXPECT_THAT(message(with("gamma_max", 1.0)), HasSubstr("gamma_max"));
  EXPECT_THAT(message(with("use_rope", true)), HasSubstr("use_forward_rope"));
  EXPECT_EQ(message(small), "no error");
}

TEST(SessaBlock, BringsItsOwnNormAndResidual) {
  const std::unique_ptr<Backend> backend = make_cpu_backend(1);
  ParameterStore store;
  Model model(
      json{
          {"d_model", 12}, {"vocab", 5}, {"blocks", {{{"mixer", {{"kind", "sessa"}, {"n_heads", 3}}}, {"repeat", 2}}}}},
      store);
  EXPECT_EQ(store.find("layers.0.mixer_norm.weight"), nullptr);
  ASSERT_EQ(model.branches().size(), 2u);
  EXPECT_EQ(model.branches()[1].norm, nullptr);
  EXPECT_EQ(model.branches()[1].first, store.find("layers.1.sessa.ln.weight"));
  store.allocate(*backend, DType::f64);
  store.initialise(3);
  HostValues host(*backend);
  Arena arena(*backend);
  Tape tape(*backend, arena);
  const auto logits = [&] {
    tape.begin(false);
    return host.read<double>(model.forward(tape, host.i32({1, 7}, {0, 1, 2, 3, 4, 0, 1}), {}).value);
  };
  const Values whole = logits();
  for (const char* name : {"layers.0.sessa.W_out.weight", "layers.0.sessa.W_out.bias", "layers.1.sessa.W_out.weight",
                           "layers.1.sessa.W_out.bias"}) {
    const Parameter& out = *store.find(name);
    store.upload(out, Values(static_cast<std::size_t>(out.shape.elements()), 0.0));
  }
  // With nothing to add the blocks hand the embedding on: equal tokens have equal logits.
  const Values silent = logits();
  EXPECT_GT(relative_error(whole, silent), 1e-3);
  const Values first(silent.begin(), silent.begin() + 5), sixth(silent.begin() + 25, silent.begin() + 30);
  EXPECT_LE(relative_error(first, sixth), 1e-13);
}

}  // namespace
}  // namespace afterglow::testing
