// The core of Gated KalmaNet on the GPU at the widths and lengths that the operation table leaves out, and its fast
// path against the exact one.
#include "core/backend/chebyshev.h"

#include <gmock/gmock.h>

#include <cmath>

#include "core/ops/ops.h"
#include "tests/gpu/gpu_test.h"
#include "tests/support/op_case.h"

namespace afterglow::testing {
namespace {

class GpuChebyshev : public OnPath<::testing::TestWithParam<Path>> {
 protected:
  void SetUp() override {
    OnPath::SetUp();
    take(GetParam());
  }
  /// Queries and keys of length one, as the layer makes them.
  static OpCase kalman_case(std::int64_t tokens, std::int64_t width, const ChebyshevConfig& config) {
    OpCase c;
    c.name = "kalman_" + std::to_string(tokens) + "_" + std::to_string(width);
    const Shape panel{1, tokens, 2, width}, numbers{1, tokens, 2};
    c.inputs = {{"q", panel}, {"k", panel}, {"v", panel}, {"g", numbers, -0.1, 0.0}, {"alpha", numbers, 0.0, 1.0}};
    c.run = [config](Tape& tape, std::span<const Var> in, std::span<const Tensor>) {
      const Var q = unit_norm(tape, in[0], 1e-6), k = unit_norm(tape, in[1], 1e-6);
      return chebyshev_readout(tape, config, {q, k, in[2], in[3], in[4]});
    };
    return c;
  }
};

TEST_P(GpuChebyshev, TakesWideHeadsAndLongSequences) {
  const std::unique_ptr<Backend> cpu = make_cpu_backend(4);
  for (const std::int64_t width : {16, 24, 33, 64, 101, 128}) {
    for (const std::int64_t tokens : {17, 64, 200}) {
      for (const Difference& d : compare_backends(kalman_case(tokens, width, {}), *cpu, *cuda_))
        EXPECT_LE(d.error, 1e-4) << width << " wide, " << tokens << " tokens, " << d.what;
    }
  }
}

// bfloat16 rounds operands by up to 2^-9. Solving a system multiplies a relative change of its matrix by at most its
// condition number, here (a + 1)/a = 51: that bounds the gradients, which pass two solves, the keys' and gates' by
// products of their answers. The readout weighs the solution against exact queries and stays well below.
TEST_P(GpuChebyshev, MatrixUnitsAgreeWithExactSums) {
  const double rounding = 1.0 / 512, a = ChebyshevConfig().ridge, kappa = (a + 1) / a;
  for (const std::int64_t width : {32, 64, 128}) {
    for (const std::int64_t tokens : {17, 63, 200, 512}) {
      const OpCase op_case = kalman_case(tokens, width, {});
      const OpInputs inputs = inputs_of(op_case);
      const OpResult want = OpRunner(op_case, *cuda_, DType::f32).result(inputs);
      cuda_->set_precision(Precision::bf16);
      const OpResult got = OpRunner(op_case, *cuda_, DType::f32).result(inputs);
      const OpResult again = OpRunner(op_case, *cuda_, DType::f32).result(inputs);
      cuda_->set_precision(Precision::fp32);
      EXPECT_EQ(again.output, got.output);
      EXPECT_EQ(again.gradients, got.gradients);
      EXPECT_LE(relative_error(got.output, want.output), 10 * rounding) << width << " wide, " << tokens << " tokens";
      for (std::size_t i = 0; i < op_case.inputs.size(); ++i) {
        EXPECT_LE(relative_error(got.gradients[i], want.gradients[i]), kappa * rounding)
            << width << " wide, " << tokens << " tokens, gradient of " << op_case.inputs[i].name;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, GpuChebyshev, both_paths,
                         [](const auto& instance) { return "path" + suffix_of(instance.param); });

}  // namespace
}  // namespace afterglow::testing
