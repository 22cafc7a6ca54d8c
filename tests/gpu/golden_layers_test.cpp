// Every layer against its golden files on the GPU, whole sequences and token by token.
#include <gmock/gmock.h>

#include "tests/gpu/gpu_test.h"
#include "tests/support/golden_layer.h"

namespace afterglow::testing {
namespace {

class GpuGoldenLayers : public OnGpu<::testing::TestWithParam<std::string>> {};

TEST_P(GpuGoldenLayers, AgreesWithinTheFilesTolerance) {
  GoldenLayer layer(GetParam(), *cuda_, DType::f32);
  for (const Difference& difference : layer.compare())
    EXPECT_LE(difference.error, layer.tolerance(difference.what)) << difference.what;
}

INSTANTIATE_TEST_SUITE_P(All, GpuGoldenLayers, ::testing::ValuesIn(golden_layer_files()),
                         [](const auto& instance) { return instance.param; });

using GpuGoldenLayersInBf16 = InPrecision<GpuGoldenLayers, Precision::bf16>;

// A product has two rounded operands, and a gradient comes from up to four products, one after the other.
TEST_P(GpuGoldenLayersInBf16, AgreesAsItsUnitRoundoffAllows) {
  GoldenLayer layer(GetParam(), *cuda_, DType::f32);
  const std::unique_ptr<Backend> cpu = make_cpu_backend(1);
  // With four keys of width four and a ridge of 0.001 the exact layer turns one rounding of its inputs into 1 to 6 %.
  std::vector<Difference> one_rounding;
  if (GetParam() == "ska_ranges_tiny" || GetParam() == "ska_read_gate_tiny")
    one_rounding = GoldenLayer(GetParam(), *cpu, DType::f64).compare_with_rounded_inputs();
  for (const Difference& difference : layer.compare()) {
    double rounding = unit_roundoff_of_bf16;
    for (const Difference& exact : one_rounding) {
      if (exact.what == difference.what) rounding = std::max(rounding, exact.error);
    }
    EXPECT_LE(difference.error, layer.tolerance(difference.what) + 4 * 2 * rounding) << difference.what;
  }
}

INSTANTIATE_TEST_SUITE_P(All, GpuGoldenLayersInBf16, ::testing::ValuesIn(golden_layer_files()),
                         [](const auto& instance) { return instance.param; });

// Stepping is another way to the same numbers only where the layer is causal with a growing memory.
class GpuSteps : public OnGpu<::testing::TestWithParam<const char*>> {};

TEST_P(GpuSteps, EqualTheWholeSequence) {
  EXPECT_LE(GoldenLayer(GetParam(), *cuda_, DType::f32).forward_against_steps(), 1e-4);
}

INSTANTIATE_TEST_SUITE_P(All, GpuSteps,
                         ::testing::Values("attention_gqa", "attention_medium", "mamba2_tiny", "mamba2_medium",
                                           "mamba2_short", "mamba3_tiny", "mamba3_medium", "mamba3_norm", "gka_bare",
                                           "gka_medium", "ska_recurrent_tiny", "ska_recurrent_medium",
                                           "koopman_mlp_gated", "swiglu_tiny"),
                         [](const auto& instance) { return std::string(instance.param); });

}  // namespace
}  // namespace afterglow::testing
