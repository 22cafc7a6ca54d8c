// What is Mamba's own: floors, the invariant lift, refused configurations.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "core/io/error.h"
#include "core/layers/layer_kind.h"
#include "core/random/random.h"
#include "tests/support/host_values.h"
#include "tests/support/op_case.h"

namespace afterglow::testing {
namespace {

using nlohmann::json;
using ::testing::Each;
using ::testing::HasSubstr;

constexpr std::int64_t mamba3_width = 6, inner = 12, states = 8, heads = 3, mamba3_tokens = 19;

json small_mamba3(const json& changes) {
  json config{{"d_model", mamba3_width}, {"d_state", states}, {"headdim", 4}, {"rope_fraction", 1.0}};
  config.update(changes);
  return config;
}

Values normal_values(std::int64_t count, std::uint64_t seed) {
  Random random(seed);
  Values values(static_cast<std::size_t>(count));
  for (double& value : values) value = random.normal();
  return values;
}

/// A layer in float64 whose parameters are start values plus noise, and one forward and backward pass through it.
struct Living {
  explicit Living(const json& config, const char* kind = "mamba3")
      : layer(make_layer(kind, config, ParameterScope(store, ""))) {
    store.allocate(*backend, DType::f64);
    store.initialise(3);
    Random random(4);
    for (const Parameter& parameter : store.all()) {
      Values values = store.download(parameter.value);
      for (double& value : values) value += 0.3 * random.normal();
      store.upload(parameter, values);
    }
  }
  Values run() {
    tape.begin(true);
    const Var x =
        tape.input(host.f64({1, mamba3_tokens, mamba3_width}, normal_values(mamba3_tokens * mamba3_width, 5)));
    const Var y = layer->forward(tape, x, {});
    tape.backward(y, host.f64({1, mamba3_tokens, mamba3_width}, normal_values(mamba3_tokens * mamba3_width, 6)));
    return host.read<double>(y.value);
  }
  /// Rows [first, first + count) of the gradient of in_proj.
  Values projection_gradient(std::int64_t first, std::int64_t count) {
    const Values all = store.download(store.find("in_proj.weight")->gradient);
    return {all.begin() + first * mamba3_width, all.begin() + (first + count) * mamba3_width};
  }
  /// The rows of in_proj that turn keys and queries: the last ones.
  void change_turns() {
    const Parameter& weight = *store.find("in_proj.weight");
    Values values = store.download(weight.value);
    for (std::size_t i = values.size() - states / 2 * mamba3_width; i < values.size(); ++i) values[i] += 1.0;
    store.upload(weight, values);
  }

  std::unique_ptr<Backend> backend = make_cpu_backend(1);
  ParameterStore store;
  std::unique_ptr<Layer> layer;
  HostValues host{*backend};
  Arena arena{*backend};
  Tape tape{*backend, arena};
};

constexpr std::int64_t dt_row = 2 * inner + 2 * states, A_row = dt_row + heads;

TEST(Mamba3Layer, NoGradientFlowsWhereTheRateIsAtItsFloor) {
  Living free(small_mamba3({{"A_floor", 0.0}})), bound(small_mamba3({{"A_floor", 100.0}}));
  free.run();
  bound.run();
  EXPECT_THAT(bound.projection_gradient(A_row, heads), Each(0.0));
  EXPECT_THAT(free.projection_gradient(A_row, heads), ::testing::Not(::testing::Contains(0.0)));
}

TEST(Mamba3Layer, NoGradientFlowsWhereTheStepIsAtItsFloor) {
  Living bound(small_mamba3(json::object()));
  ASSERT_EQ(bound.layer->settings()[0].key, "dt_floor");
  bound.layer->set("dt_floor", 50.0);
  EXPECT_EQ(bound.layer->settings()[0].field.value, 50.0);
  bound.run();
  EXPECT_THAT(bound.projection_gradient(dt_row, heads), Each(0.0));
  EXPECT_THAT(bound.store.download(bound.store.find("dt_bias")->gradient), Each(0.0));
}

// A step floor belongs to Mamba-2 too.
TEST(Mamba2Layer, SettingTheStepFloorIsAsMakingTheLayerWithIt) {
  const json config{{"d_model", mamba3_width}, {"d_state", states}, {"headdim", 4}};
  json floored = config;
  floored["dt_floor"] = 0.4;
  Living free(config, "mamba2"), changed(config, "mamba2"), made(floored, "mamba2");
  changed.layer->set("dt_floor", 0.4);
  EXPECT_EQ(changed.layer->settings()[0].field.value, 0.4);
  EXPECT_EQ(changed.run(), made.run());
  EXPECT_GT(relative_error(free.run(), made.run()), 1e-3);
}

TEST(Mamba3Layer, SettingTheStepFloorIsAsMakingTheLayerWithIt) {
  Living changed(small_mamba3(json::object())), made(small_mamba3({{"dt_floor", 0.4}}));
  const Values before = changed.run();
  changed.layer->set("dt_floor", 0.4);
  EXPECT_EQ(changed.run(), made.run());
  EXPECT_GT(relative_error(before, made.run()), 1e-3);
}

// Echo, corollary B.3: what the lifted keys answer does not depend on the angles; with the harmonics it does.
TEST(Mamba3Layer, InvariantLiftDoesNotFeelTheAngles) {
  Living invariant(small_mamba3({{"invariant_lift", true}})),
      both(small_mamba3({{"invariant_lift", true}, {"harmonics", true}})), plain(small_mamba3(json::object()));
  for (Living* living : {&invariant, &both, &plain}) {
    const Values before = living->run();
    living->change_turns();
    const double change = relative_error(living->run(), before);
    if (living == &invariant) {
      EXPECT_LT(change, 1e-13);
      EXPECT_LT(relative_error(living->projection_gradient(A_row + 2 * heads, states / 2), Values(24, 0.0)), 1e-12);
    } else {
      EXPECT_GT(change, 1e-2);
    }
  }
}

std::string refusal(const json& changes) {
  ParameterStore store;
  try {
    make_layer("mamba3", small_mamba3(changes), ParameterScope(store, ""));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::bad_input);
    return error.what();
  }
  return "accepted";
}

TEST(Mamba3Layer, RefusesWhatItCannotDo) {
  EXPECT_THAT(refusal({{"is_mimo", true}}), HasSubstr("set is_mimo to false"));
  EXPECT_EQ(refusal({{"is_mimo", false}}), "accepted");
  EXPECT_THAT(refusal({{"headdim", 5}}), HasSubstr("must divide expand * d_model = 12"));
  EXPECT_THAT(refusal({{"rope_fraction", 1.5}}), HasSubstr("rope_fraction"));
  EXPECT_THAT(refusal({{"ngroups", 2}}), HasSubstr("ngroups"));
  EXPECT_EQ(refusal({{"d_state", 7}}), "accepted");
  EXPECT_THAT(refusal({{"d_state", 7}, {"harmonics", true}}), HasSubstr("is odd"));
}

}  // namespace
}  // namespace afterglow::testing
