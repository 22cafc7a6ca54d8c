// Every case of the operation table on the GPU: against the CPU in float64, twice with the same bits and
// accumulating.
#include <gmock/gmock.h>

#include <algorithm>
#include <array>

#include "tests/gpu/gpu_test.h"
#include "tests/support/op_case.h"

namespace afterglow::testing {

void PrintTo(const OpCase& op_case, std::ostream* out) { *out << op_case.name; }

namespace {

class GpuOpTable : public OnGpu<::testing::TestWithParam<OpCase>> {};

/// A case computed twice.
void expect_same_bits(const OpCase& of, Backend& backend) {
  const OpInputs inputs = inputs_of(of);
  const OpResult first = OpRunner(of, backend, DType::f32).result(inputs);
  const OpResult second = OpRunner(of, backend, DType::f32).result(inputs);
  EXPECT_EQ(first.output, second.output);
  EXPECT_EQ(first.gradients, second.gradients);
}

TEST_P(GpuOpTable, AgreesWithTheCpu) {
  const std::unique_ptr<Backend> cpu = make_cpu_backend(2);
  for (const Difference& difference : compare_backends(GetParam(), *cpu, *cuda_))
    EXPECT_LE(difference.error, GetParam().tolerance) << difference.what << "; " << GetParam().reason;
}

TEST_P(GpuOpTable, RepeatsItsBits) { expect_same_bits(GetParam(), *cuda_); }

TEST_P(GpuOpTable, GradientsAccumulate) {
  const OpInputs inputs = inputs_of(GetParam());
  OpRunner runner(GetParam(), *cuda_, DType::f32);
  const OpResult once = runner.result(inputs), thrice = runner.result(inputs, 3);
  for (std::size_t input = 0; input < GetParam().inputs.size(); ++input) {
    Values want = once.gradients[input];
    for (double& value : want) value *= 3.0;
    EXPECT_LE(relative_error(thrice.gradients[input], want), 1e-6) << GetParam().inputs[input].name;
  }
}

/// Fused operations whose products have operands of 11 bits in tf32: those over pairs of tokens, and the SKA core.
std::vector<OpCase> rounded_cases() {
  std::vector<OpCase> cases = op_cases();
  std::erase_if(cases, [](const OpCase& each) {
    return std::ranges::none_of(std::array{"attention", "feedback", "ridge"},
                                [&](const char* name) { return each.name.find(name) != std::string::npos; });
  });
  return cases;
}

class GpuOpTableInTf32 : public OnGpu<::testing::TestWithParam<OpCase>> {
 protected:
  void SetUp() override {
    OnGpu::SetUp();
    if (cuda_ != nullptr) cuda_->set_precision(Precision::tf32);
  }
  void TearDown() override {
    if (cuda_ != nullptr) cuda_->set_precision(Precision::fp32);
  }
};

TEST_P(GpuOpTableInTf32, AgreesWithTheCpu) {
  // L^-1 behind the SKA core's filter multiplies what was rounded by the root of a condition number.
  const double most = GetParam().name.find("ridge") == std::string::npos ? 4e-3 : 1.2e-2;
  const std::unique_ptr<Backend> cpu = make_cpu_backend(2);
  for (const Difference& difference : compare_backends(GetParam(), *cpu, *cuda_))
    EXPECT_LE(difference.error, most) << difference.what << ": operands are rounded to one part in 4096";
}

TEST_P(GpuOpTableInTf32, RepeatsItsBits) { expect_same_bits(GetParam(), *cuda_); }

INSTANTIATE_TEST_SUITE_P(All, GpuOpTableInTf32, ::testing::ValuesIn(rounded_cases()),
                         [](const auto& instance) { return instance.param.name; });

INSTANTIATE_TEST_SUITE_P(All, GpuOpTable, ::testing::ValuesIn(op_cases()),
                         [](const auto& instance) { return instance.param.name; });

}  // namespace
}  // namespace afterglow::testing
