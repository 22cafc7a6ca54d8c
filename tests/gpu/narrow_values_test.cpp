// What a GPU in bf16 stores as bfloat16: results of large projections whose readers take that, and their gradients.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/layers/layer_kind.h"
#include "core/ops/ops.h"
#include "core/random/random.h"
#include "tests/gpu/gpu_test.h"
#include "tests/support/host_values.h"
#include "tests/support/op_case.h"

namespace afterglow::testing {
namespace {

struct LayerCase {
  const char* name;
  const char* kind;
  const char* config;
  std::int64_t batch, length, width;
};

void PrintTo(const LayerCase& of, std::ostream* out) { *out << of.name; }

class NarrowValues : public OnGpu<::testing::TestWithParam<LayerCase>> {
 protected:
  struct Answer {
    std::vector<float> y, dx;
    std::vector<std::pair<std::string, Values>> gradients;  // of the parameters
    std::size_t used = 0;                                   // bytes of the arena
  };
  Answer answer(Precision precision, bool is_looked_at) {
    const auto& [name, kind, config, batch, length, width] = GetParam();
    cuda_->set_precision(precision);
    HostValues host(*cuda_);
    ParameterStore store;
    const auto layer = make_layer(kind, nlohmann::json::parse(config), ParameterScope(store, ""));
    store.allocate(*cuda_, DType::f32);
    store.initialise(3);
    Arena arena(*cuda_);
    arena.set_poison(true);
    Tape tape(*cuda_, arena);
    if (is_looked_at) tape.set_watcher([](const char*, const Tensor&) {});
    tape.begin(true);
    const Shape shape{batch, length, width};
    const Var x = tape.input(host.f32(shape, normal(shape.elements(), 1)));
    const Var y = layer->forward(tape, x, {});
    tape.backward(y, host.f32(shape, normal(shape.elements(), 2)));
    tape.zero_untouched(store);
    Answer answer{host.read<float>(y.value), host.read<float>(tape.gradient_of(x)), {}, arena.used()};
    for (const Parameter& parameter : store.all())
      answer.gradients.emplace_back(parameter.name, store.download(parameter.gradient));
    cuda_->set_precision(Precision::fp32);
    return answer;
  }
  static std::vector<float> normal(std::int64_t count, std::uint64_t seed) {
    Random random(seed);
    std::vector<float> values(static_cast<std::size_t>(count));
    for (float& value : values) value = static_cast<float>(random.normal());
    return values;
  }
  static double error(const std::vector<float>& got, const std::vector<float>& want) {
    return relative_error(Values(got.begin(), got.end()), Values(want.begin(), want.end()));
  }
};

TEST_P(NarrowValues, AreAsCloseAsTheirRoundoffAllows) {
  const Answer want = answer(Precision::fp32, false), got = answer(Precision::bf16, false);
  EXPECT_LT(error(got.y, want.y), 2 * unit_roundoff_of_bf16);
  EXPECT_LT(error(got.dx, want.dx), 2 * unit_roundoff_of_bf16);
  ASSERT_EQ(got.gradients.size(), want.gradients.size());
  for (std::size_t i = 0; i < want.gradients.size(); ++i) {
    const auto& [name, gradient] = got.gradients[i];
    const bool cancels = name == "dt_bias" || name == "A_log";  // sums over all tokens of what decays gain and lose
    EXPECT_LT(relative_error(gradient, want.gradients[i].second), (cancels ? 8 : 4) * unit_roundoff_of_bf16) << name;
  }
}

TEST_P(NarrowValues, TakeLessMemoryAndAreWideWhereSomebodyLooks) {
  const Answer narrow = answer(Precision::bf16, false), wide = answer(Precision::bf16, true);
  EXPECT_LT(static_cast<double>(narrow.used), 0.8 * static_cast<double>(wide.used));
  EXPECT_LT(error(narrow.y, wide.y), 2 * unit_roundoff_of_bf16);
  EXPECT_NE(narrow.y, wide.y);
}

TEST_P(NarrowValues, RepeatTheirBits) {
  const Answer once = answer(Precision::bf16, false), again = answer(Precision::bf16, false);
  EXPECT_EQ(again.y, once.y);
  EXPECT_EQ(again.dx, once.dx);
  EXPECT_EQ(again.gradients, once.gradients);
}

// Many rows and few, a width that is no whole number of vectors (2 x 256 + 2 x 64 + 4 columns), channels one by one.
INSTANTIATE_TEST_SUITE_P(
    Layers, NarrowValues,
    ::testing::Values(LayerCase{"koopman", "koopman_mlp", R"({"d": 128})", 2, 1024, 128},
                      LayerCase{"koopman_gated", "koopman_mlp", R"({"d": 256, "gated": true})", 3, 1700, 256},
                      LayerCase{"koopman_odd", "koopman_mlp", R"({"d": 200, "dk": 376})", 1, 1025, 200},
                      LayerCase{"mamba2", "mamba2", R"({"d_model": 128, "headdim": 64, "d_state": 64})", 1, 2048, 128},
                      LayerCase{"mamba2_long", "mamba2", R"({"d_model": 128, "headdim": 32, "d_state": 16})", 4, 2050,
                                128},
                      LayerCase{"mamba2_odd", "mamba2", R"({"d_model": 136, "headdim": 8, "d_state": 24, "d_conv": 5})",
                                3, 999, 136}),
    [](const auto& instance) { return std::string(instance.param.name); });

}  // namespace
}  // namespace afterglow::testing
