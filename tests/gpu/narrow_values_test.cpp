// What a GPU in bf16 stores as bfloat16: results of large projections whose readers take that, and their gradients.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/engine/training/trainer.h"
#include "core/layers/layer_kind.h"
#include "core/ops/ops.h"
#include "core/recipe/recipe.h"
#include "gpu/runtime/hopper_kernels.h"
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
  bool amplifies = false;   // products of three of its inputs, or systems: what makes more of a rounding
  double most_bytes = 0.8;  // of the bytes with hooks installed; statistics stay as they are
};

void PrintTo(const LayerCase& of, std::ostream* out) { *out << of.name; }

class NarrowValues : public OnGpu<::testing::TestWithParam<LayerCase>> {
 protected:
  struct Answer {
    std::vector<float> y, dx;
    std::vector<std::pair<std::string, Values>> gradients;  // of the parameters
    std::size_t used = 0;                                   // bytes of the arena
  };
  Answer answer(Precision precision, bool is_wide) {
    const auto& [name, kind, config, batch, length, width, amplifies, most_bytes] = GetParam();
    cuda_->set_precision(precision);
    HostValues host(*cuda_);
    ParameterStore store;
    const auto layer = make_layer(kind, nlohmann::json::parse(config), ParameterScope(store, ""));
    store.allocate(*cuda_, DType::f32);
    store.initialise(3);
    // SKA's answer begins at zero, where no gradient would come through.
    for (const Parameter& parameter : store.all()) {
      if (parameter.name == "o_proj.weight") store.upload(parameter, small_values(parameter.shape, 4));
    }
    Arena arena(*cuda_);
    arena.set_poison(true);
    Tape tape(*cuda_, arena);
    const TapeObserver observer(tape, {.form = is_wide ? PassForm::wide : PassForm::usual}, {});
    tape.begin(true);
    const Shape shape{batch, length, width};
    const Var x = tape.input(host.f32(shape, random_floats(shape.elements(), 1)));
    const Var y = layer->forward(tape, x, {});
    tape.backward(y, host.f32(shape, random_floats(shape.elements(), 2)));
    tape.zero_untouched(store);
    Answer answer{host.read<float>(y.value), host.read<float>(tape.gradient_of(x)), {}, arena.used()};
    for (const Parameter& parameter : store.all())
      answer.gradients.emplace_back(parameter.name, store.download(parameter.gradient));
    cuda_->set_precision(Precision::fp32);
    return answer;
  }
  /// Of a projection whose answers are about as large as its inputs.
  static Values small_values(const Shape& shape, std::uint64_t seed) {
    const std::vector<float> values = random_floats(shape.elements(), seed);
    Values small(values.begin(), values.end());
    for (double& value : small) value /= std::sqrt(static_cast<double>(shape.last()));
    return small;
  }
  static double error(const std::vector<float>& got, const std::vector<float>& want) {
    return relative_error(Values(got.begin(), got.end()), Values(want.begin(), want.end()));
  }
  /// Sums over all tokens of what decays gain and lose, of what a step takes from errors and gives to them, of what a
  /// solution and its query differ in, or of what a softmax takes from some keys and gives to others.
  static bool cancels(const std::string& name) {
    return name == "dt_bias" || name == "A_log" || name == "a_proj.weight" || name.starts_with("b_proj.") ||
           name == "alpha_proj.bias" || name.ends_with("k_proj.bias") || name.ends_with("proj_fb.bias");
  }
  /// Values are rounded once more than where projections alone round them: what those roundings become is what these
  /// may become as well.
  static void expect_at_most_twice_as_far(const Answer& got, const Answer& wide, const Answer& want) {
    EXPECT_LT(error(got.y, want.y), 2 * error(wide.y, want.y));
    EXPECT_LT(error(got.dx, want.dx), 2 * error(wide.dx, want.dx));
    for (std::size_t i = 0; i < want.gradients.size(); ++i) {
      const auto& [name, exact] = want.gradients[i];
      double most = (cancels(name) ? 4 : 2) * relative_error(wide.gradients[i].second, exact);
      // A number, or a few sums that nearly cancel: the wide one's error may be small by chance.
      if (exact.size() == 1 || cancels(name)) most = std::max(most, 16 * unit_roundoff_of_bf16);
      EXPECT_LE(relative_error(got.gradients[i].second, exact), most) << name;  // 0 of a bias after all that is stored
    }
  }
};

TEST_P(NarrowValues, AreAsCloseAsTheirRoundoffAllows) {
  const Answer want = answer(Precision::fp32, false), got = answer(Precision::bf16, false);
  ASSERT_EQ(got.gradients.size(), want.gradients.size());
  if (GetParam().amplifies) return expect_at_most_twice_as_far(got, answer(Precision::bf16, true), want);
  EXPECT_LT(error(got.y, want.y), 2 * unit_roundoff_of_bf16);
  EXPECT_LT(error(got.dx, want.dx), 2 * unit_roundoff_of_bf16);
  for (std::size_t i = 0; i < want.gradients.size(); ++i) {
    const auto& [name, gradient] = got.gradients[i];
    EXPECT_LT(relative_error(gradient, want.gradients[i].second), (cancels(name) ? 8 : 4) * unit_roundoff_of_bf16)
        << name;
  }
}

TEST_P(NarrowValues, TakeLessMemoryAndAreWideWhereHooksRead) {
  const Answer narrow = answer(Precision::bf16, false), wide = answer(Precision::bf16, true);
  // Only warp groups read narrow keys and values of the SKA core.
  if (!device::hopper_ridge && GetParam().kind == std::string("ska")) {
    EXPECT_EQ(narrow.y, wide.y);
    return;
  }
  double most = 2 * unit_roundoff_of_bf16;
  // One is as far from float32 as a rounding becomes, the other at most twice as far.
  if (GetParam().amplifies)
    most = std::max(4 * unit_roundoff_of_bf16, 3 * error(wide.y, answer(Precision::fp32, false).y));
  EXPECT_LT(static_cast<double>(narrow.used), GetParam().most_bytes * static_cast<double>(wide.used));
  EXPECT_LT(error(narrow.y, wide.y), most);
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
    ::testing::Values(
        LayerCase{"koopman", "koopman_mlp", R"({"d": 128})", 2, 1024, 128},
        LayerCase{"koopman_gated", "koopman_mlp", R"({"d": 256, "gated": true})", 3, 1700, 256},
        LayerCase{"koopman_odd", "koopman_mlp", R"({"d": 200, "dk": 376})", 1, 1025, 200},
        LayerCase{"attention", "attention", R"({"d": 256, "n_heads": 4})", 2, 1024, 256},
        LayerCase{"attention_grouped", "attention", R"({"d": 384, "n_heads": 6, "n_kv_heads": 2})", 3, 999, 384},
        LayerCase{"attention_odd", "attention", R"({"d": 120, "n_heads": 8})", 2, 1025, 120},
        LayerCase{"attention_short", "attention", R"({"d": 216, "n_heads": 12, "n_kv_heads": 4})", 70, 40, 216},
        LayerCase{"attention_plain", "attention", R"({"d": 256, "n_heads": 2, "use_rope": false})", 2, 1030, 256},
        LayerCase{"attention_wide", "attention", R"({"d": 512, "n_heads": 2})", 1, 1100, 512},
        LayerCase{"sessa", "sessa", R"({"D": 256, "n_heads": 4})", 2, 1024, 256, true},
        LayerCase{"sessa_odd", "sessa", R"({"D": 144, "n_heads": 6, "n_kv_heads": 2})", 4, 1001, 144, true},
        LayerCase{"sessa_one_head", "sessa", R"({"D": 128, "n_heads": 1, "use_norm": false})", 5, 1000, 128, true},
        LayerCase{"sessa_plain", "sessa", R"({"D": 256, "n_heads": 8, "use_feedback": false})", 3, 400, 256, true},
        LayerCase{"linear_attention", "linear_attention", R"({"d": 256, "n_heads": 4})", 2, 1024, 256, true},
        LayerCase{"linear_attention_odd", "linear_attention", R"({"d": 200, "n_heads": 5})", 3, 999, 200, true},
        LayerCase{"swiglu", "swiglu", R"({"d": 256, "d_ff": 768})", 3, 1700, 256},
        LayerCase{"swiglu_odd", "swiglu", R"({"d": 200, "d_ff": 376})", 2, 1025, 200},
        LayerCase{"mamba2", "mamba2", R"({"d_model": 128, "headdim": 64, "d_state": 64})", 1, 2048, 128},
        LayerCase{"mamba2_biased", "mamba2", R"({"d_model": 128, "headdim": 64, "d_state": 64, "bias": true})", 2, 1024,
                  128, true},
        LayerCase{"mamba2_long", "mamba2", R"({"d_model": 128, "headdim": 32, "d_state": 16})", 4, 2050, 128},
        LayerCase{"mamba2_odd", "mamba2", R"({"d_model": 136, "headdim": 8, "d_state": 24, "d_conv": 5})", 3, 999, 136},
        LayerCase{"mamba2_wide", "mamba2", R"({"d_model": 256, "headdim": 128, "d_state": 64, "ngroups": 2})", 1, 1990,
                  256},
        LayerCase{"mamba2_many_states", "mamba2", R"({"d_model": 128, "headdim": 64, "d_state": 128})", 1, 2048, 128},
        LayerCase{"mamba2_passes_odd", "mamba2", R"({"d_model": 136, "headdim": 16, "d_state": 80})", 3, 999, 136},
        LayerCase{"mamba3", "mamba3", R"({"d_model": 128, "headdim": 64, "d_state": 64})", 2, 1024, 128},
        LayerCase{"mamba3_many_states", "mamba3", R"({"d_model": 128, "headdim": 64})", 2, 1024, 128},
        LayerCase{"mamba3_plain", "mamba3", R"({"d_model": 136, "headdim": 16, "d_state": 24, "rope_fraction": 0})", 3,
                  999, 136},
        LayerCase{"mamba3_normed", "mamba3",
                  R"({"d_model": 256, "headdim": 64, "d_state": 32, "is_outproj_norm": true})", 2, 1500, 256},
        LayerCase{"mamba3_long", "mamba3", R"({"d_model": 128, "headdim": 32, "d_state": 32})", 3, 1500, 128},
        LayerCase{"ska", "ska", R"({"d": 448, "H": 7, "r": 56, "P": 64, "mode": "chunk", "chunk": 64})", 1, 2048, 448,
                  true},
        LayerCase{"ska_prefix_norm", "ska",
                  R"({"d": 256, "H": 4, "r": 40, "P": 48, "mode": "chunk", "chunk": 32, "norm_scope": "prefix"})", 3,
                  1001, 256, true, 1.0},
        LayerCase{"ska_recurrent", "ska", R"({"d": 256, "H": 4, "r": 36, "P": 36, "mode": "recurrent"})", 4, 500, 256,
                  true, 1.0},
        LayerCase{"deltanet", "deltanet", R"({"d": 256, "H": 4})", 5, 1000, 256, true},
        LayerCase{"deltanet_short", "deltanet", R"({"d": 256, "H": 8, "conv_size": 3})", 40, 128, 256, true},
        LayerCase{"gated_deltanet", "gated_deltanet", R"({"d": 192, "H": 3, "Dv": 24})", 3, 1490, 192, true},
        LayerCase{"deltanet_wide_heads", "deltanet", R"({"d": 256, "H": 2})", 5, 1000, 256, true},
        LayerCase{"gated_deltanet_wide_heads", "gated_deltanet", R"({"d": 256, "H": 4, "Dk": 128, "Dv": 176})", 3, 1490,
                  256, true},
        LayerCase{"gka", "gka", R"({"hidden_size": 256, "num_heads": 4, "head_dim": 64})", 5, 1000, 256, true},
        LayerCase{"gka_wide", "gka", R"({"hidden_size": 192, "num_heads": 2, "head_dim": 128, "use_beta_gate": false})",
                  3, 1490, 192, true},
        LayerCase{"gka_plain", "gka",
                  R"({"hidden_size": 200, "num_heads": 3, "head_dim": 64, "conv_size": 3,
                      "use_alpha_connection": false, "use_forgetting_gate_kk": false, "num_iter": 10})",
                  7, 599, 200, true},
        LayerCase{"gla", "gla", R"({"d": 256, "H": 4})", 2, 1024, 256, true},
        LayerCase{"gla_odd", "gla", R"({"d": 160, "H": 4, "Dk": 24, "Dv": 16, "conv_size": 5})", 3, 999, 160, true},
        LayerCase{"gla_wide", "gla", R"({"d": 256, "H": 2})", 2, 1024, 256, true},
        LayerCase{"gla_widest", "gla", R"({"d": 256, "H": 2, "Dv": 256})", 2, 999, 256, true},
        LayerCase{"kda", "kda", R"({"d": 256, "H": 4})", 5, 1000, 256, true},
        LayerCase{"kda_wide", "kda", R"({"d": 256, "H": 2})", 5, 1000, 256, true},
        LayerCase{"kda_odd", "kda", R"({"d": 160, "H": 5, "Dk": 32, "Dv": 24})", 5, 999, 160, true},
        LayerCase{"gated_deltanet_wide", "gated_deltanet", R"({"d": 448, "H": 7})", 3, 2048, 448, true}),
    [](const auto& instance) { return std::string(instance.param.name); });

// Norms leave narrow inputs for layers that project them once, whatever those store themselves.
class NarrowModels : public OnPath<::testing::TestWithParam<Path>> {
 protected:
  void SetUp() override {
    OnPath::SetUp();
    take(GetParam());
  }
  std::vector<StepResult> steps(Precision precision) {
    Recipe recipe = parse_recipe(nlohmann::json::parse(R"({"name": "narrow", "seed": 3,
        "model": {"d_model": 256, "vocab": 128, "blocks": [
          {"mixer": {"kind": "mamba2", "d_state": 64, "headdim": 64}, "mlp": {"kind": "swiglu", "d_ff": 640}},
          {"mixer": {"kind": "attention", "n_heads": 4, "n_kv_heads": 2}, "mlp": {"kind": "koopman_mlp"}},
          {"mixer": {"kind": "ska", "H": 4, "r": 40, "P": 64, "K": 2, "mode": "chunk", "chunk": 64},
           "mlp": {"kind": "koopman_mlp"}},
          {"mixer": {"kind": "gated_deltanet", "H": 4}, "mlp": {"kind": "koopman_mlp"}}]},
        "task": {"kind": "sysprompt", "bindings": 4, "length": 1024},
        "training": {"steps": 10, "batch": 5, "learning_rate": 0.001, "warmup": 1, "evaluate_every": 0}})"),
                                 "narrow");
    recipe.precision = precision;
    Trainer trainer(recipe, *cuda_);
    std::vector<StepResult> results;
    for (int i = 0; i < 5; ++i) results.push_back(trainer.step());
    cuda_->set_precision(Precision::fp32);
    return results;
  }
};

TEST_P(NarrowModels, TrainAsWideOnesDo) {
  const std::vector<StepResult> want = steps(Precision::fp32), got = steps(Precision::bf16);
  for (std::size_t i = 0; i < want.size(); ++i) {
    ASSERT_TRUE(got[i].finite);
    EXPECT_NE(got[i].loss, want[i].loss);
    EXPECT_NEAR(got[i].loss, want[i].loss, unit_roundoff_of_bf16 * want[i].loss) << "step " << i + 1;
    EXPECT_NEAR(got[i].gradient_norm, want[i].gradient_norm, 8 * unit_roundoff_of_bf16 * want[i].gradient_norm)
        << "step " << i + 1;
  }
}

INSTANTIATE_TEST_SUITE_P(Paths, NarrowModels, both_paths,
                         [](const auto& instance) { return "model" + suffix_of(instance.param); });

// Weights that are rounded all at once for the projections of a step.
class WeightsOfAStep : public OnGpu<::testing::Test> {
 protected:
  static constexpr std::int64_t rows = 4096, inputs = 512, outputs[] = {512, 1000, 604};
  void SetUp() override {
    OnGpu::SetUp();
    if (cuda_ == nullptr) return;
    host_ = std::make_unique<HostValues>(*cuda_);
    const std::int64_t all = (outputs[0] + outputs[1] + outputs[2] + 4) * inputs;  // 604 lacks four of whole eights
    values_ = host_->f32({all}, random_floats(all, 1));
    auto* next = values_.as<float>();
    for (const std::int64_t count : outputs) {
      weights_.emplace_back(next, Shape{count, inputs}, DType::f32);
      next += count * inputs;
    }
    cuda_->set_precision(Precision::bf16);
    rounded_ = zeros(1, cuda_->plan(PinningCall{values_}).kept);
  }
  void TearDown() override {
    if (cuda_ == nullptr) return;
    cuda_->release_weights();
    cuda_->set_precision(Precision::fp32);
  }
  Tensor zeros(std::int64_t height, std::int64_t width) {
    return host_->f32({height, width}, std::vector<float>(static_cast<std::size_t>(height * width)));
  }
  /// Results of projections of one input, and its gradient.
  std::vector<std::vector<float>> project(std::span<const Tensor> weights) {
    const Tensor x = host_->f32({rows, inputs}, random_floats(rows * inputs, 2)), dx = zeros(rows, inputs);
    std::vector<Tensor> results, dresults;
    for (const Tensor& weight : weights) {
      results.push_back(zeros(rows, weight.rows()));
      dresults.push_back(host_->f32({rows, weight.rows()}, random_floats(rows * weight.rows(), 3)));
    }
    const Tensor kept = zeros(1, cuda_->plan(ProjectionCall{x, weights}).kept);
    const std::vector<Grad> none(weights.size());
    cuda_->linear_forward_many(x, weights, {}, results, {kept});
    cuda_->linear_backward({dresults, weights, x, kept, none, {}, {dx, false}});
    std::vector<std::vector<float>> answer{host_->read<float>(dx)};
    for (const Tensor& result : results) answer.push_back(host_->read<float>(result));
    return answer;
  }
  /// Of two together and of the last one.
  std::vector<std::vector<float>> answer() {
    std::vector<std::vector<float>> answer = project(std::span(weights_).first(2));
    for (auto& values : project(std::span(weights_).last(1))) answer.push_back(std::move(values));
    return answer;
  }

  std::unique_ptr<HostValues> host_;
  Tensor values_, rounded_;
  std::vector<Tensor> weights_;
};

TEST_F(WeightsOfAStep, HaveTheBitsOfThoseThatEachProjectionRounds) {
  const auto each = answer();
  cuda_->hold_weights(values_, rounded_);
  EXPECT_EQ(answer(), each);
}

TEST_F(WeightsOfAStep, AreThoseOfItsBeginning) {
  cuda_->hold_weights(values_, rounded_);
  const auto before = answer();
  cuda_->fill(values_, 0.0);
  EXPECT_EQ(answer(), before);
  cuda_->release_weights();
  EXPECT_NE(answer(), before);
}

// One scale for all has less room below, so that the smallest numbers lose bits.
TEST_F(WeightsOfAStep, InTf32ServeAsWellAsThoseThatEachProjectionRounds) {
  cuda_->set_precision(Precision::tf32);
  EXPECT_EQ(cuda_->plan(PinningCall{values_}).kept, 0);  // so few are not worth it
  const auto each = answer();
  cuda_->hold_weights(values_, rounded_);
  const auto together = answer();
  ASSERT_EQ(together.size(), each.size());
  for (std::size_t i = 0; i < each.size(); ++i) {
    const Values got(together[i].begin(), together[i].end()), want(each[i].begin(), each[i].end());
    EXPECT_LT(relative_error(got, want), 1e-6) << i;
  }
  cuda_->fill(values_, 0.0);
  EXPECT_EQ(answer(), together);
}

TEST_F(WeightsOfAStep, AreNoneInFp32) {
  EXPECT_GT(cuda_->plan(PinningCall{values_}).kept, 0);
  cuda_->set_precision(Precision::fp32);
  EXPECT_EQ(cuda_->plan(PinningCall{values_}).kept, 0);
  const auto each = answer();
  cuda_->hold_weights(values_, rounded_);
  EXPECT_EQ(answer(), each);
}

// The gradient of a residual stream, which stays float32 and is left in bfloat16 as well where it is whole.
class NarrowGradients : public OnGpu<::testing::Test> {
 protected:
  static constexpr std::int64_t rows = 4608, width = 256;

  struct Answer {
    std::vector<std::vector<float>> gradients;  // of the stream and the three weights
    bool is_narrow = false;
  };
  /// Two branches, of which the second may add what the first one answered once more.
  Answer answer(Precision precision, bool is_read_again) {
    cuda_->set_precision(precision);
    HostValues host(*cuda_);
    Arena arena(*cuda_);
    arena.set_poison(true);
    Tape tape(*cuda_, arena);
    tape.begin(true);
    std::vector<Var> inputs;
    const Shape shapes[] = {{rows, width}, {width, width}, {width}, {width, width}};
    for (const Shape& shape : shapes) inputs.push_back(tape.input(host.f32(shape, scaled(shape, inputs.size()))));
    const Var branch = linear(tape, inputs[0], inputs[1], {});
    const NormedSum first = add_rms_norm(tape, inputs[0], branch, inputs[2], 1e-5);
    const Var second = linear(tape, first.normed, inputs[3], {});
    const Var more = is_read_again ? add(tape, second, branch) : second;
    const NormedSum last = add_rms_norm(tape, first.sum, more, inputs[2], 1e-5);
    tape.backward(last.normed, host.f32({rows, width}, random_floats(rows * width, 9)));
    Answer answer{{}, tape.narrow_upstream(branch).defined()};
    for (const Var& input : inputs) answer.gradients.push_back(host.read<float>(tape.gradient_of(input)));
    cuda_->set_precision(Precision::fp32);
    return answer;
  }
  /// Weights of matrices are smaller, so that answers are as large as what they come from.
  static std::vector<float> scaled(const Shape& shape, std::uint64_t seed) {
    std::vector<float> values = random_floats(shape.elements(), seed + 1);
    if (shape.elements() == width * width)
      for (float& value : values) value /= 16;
    return values;
  }
  static void expect_close(const Answer& got, const Answer& want) {
    ASSERT_EQ(got.gradients.size(), want.gradients.size());
    for (std::size_t i = 0; i < want.gradients.size(); ++i) {
      const auto &g = got.gradients[i], &w = want.gradients[i];
      EXPECT_LT(relative_error(Values(g.begin(), g.end()), Values(w.begin(), w.end())), 4 * unit_roundoff_of_bf16) << i;
    }
  }
};

TEST_F(NarrowGradients, AreTakenByTheProjectionOfABranch) {
  const Answer got = answer(Precision::bf16, false);
  EXPECT_TRUE(got.is_narrow);
  expect_close(got, answer(Precision::fp32, false));
}

TEST_F(NarrowGradients, AreGivenUpWhereMoreIsAdded) {
  const Answer got = answer(Precision::bf16, true);
  EXPECT_FALSE(got.is_narrow);
  expect_close(got, answer(Precision::fp32, true));
}

TEST_F(NarrowGradients, AreMadeInBfloat16Alone) {
  EXPECT_FALSE(answer(Precision::tf32, false).is_narrow);
  EXPECT_FALSE(answer(Precision::fp32, false).is_narrow);
}

// Few rows and many, columns in fours and one by one.
TEST_F(NarrowGradients, AreTheGradientRounded) {
  for (const Shape& shape : {Shape{300, 256}, Shape{9000, 448}, Shape{9000, 36}, Shape{300, 37}, Shape{5000, 2100}}) {
    HostValues host(*cuda_);
    const std::vector<float> zeros(static_cast<std::size_t>(shape.elements()));
    const Shape columns{shape.last()}, own_rows{shape[0]};
    const auto values = [&](const Shape& of, std::uint64_t seed) {
      return host.f32(of, random_floats(of.elements(), seed));
    };
    const Tensor x = values(shape, 1), weight = values(columns, 2), dy = values(shape, 3), base = values(shape, 4);
    const Tensor y = host.f32(shape, zeros), inverse = values(own_rows, 5), dx = host.f32(shape, zeros);
    const Tensor dweight = values(columns, 6);
    const Tensor narrow =
        host.tensor(shape, DType::bf16, std::vector<std::uint16_t>(static_cast<std::size_t>(shape.elements())));
    cuda_->rms_norm({Normed::plain, x, {}, weight, 1e-5, {}, y, inverse, {}});
    cuda_->rms_norm_backward({Normed::plain, x, {}, weight, 0, {}, {}, inverse, {}},
                             {dy, base, {dx, false}, {}, narrow, {dweight, false}});
    const std::vector<float> wide = host.read<float>(dx);
    const std::vector<std::uint16_t> rounded = host.read<std::uint16_t>(narrow);
    for (std::size_t i = 0; i < wide.size(); ++i) {
      const float back = std::bit_cast<float>(static_cast<std::uint32_t>(rounded[i]) << 16);
      ASSERT_LE(std::abs(back - wide[i]), std::abs(wide[i]) * unit_roundoff_of_bf16) << shape.text() << " at " << i;
    }
  }
}

}  // namespace
}  // namespace afterglow::testing
