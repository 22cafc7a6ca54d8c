// Every case of the operation table on the GPU, by warp groups and without: against the CPU in float64, twice with the
// same bits and accumulating.
#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <tuple>

#include "tests/gpu/gpu_test.h"
#include "tests/support/op_case.h"

namespace afterglow::testing {

void PrintTo(const OpCase& op_case, std::ostream* out) { *out << op_case.name; }

namespace {

class OpTable : public OnPath<::testing::TestWithParam<std::tuple<OpCase, Path>>> {
 protected:
  void SetUp() override {
    OnPath::SetUp();
    take(std::get<Path>(GetParam()));
  }
  static const OpCase& op_case() { return std::get<OpCase>(GetParam()); }
};

const auto name_of_case = [](const ::testing::TestParamInfo<std::tuple<OpCase, Path>>& instance) {
  return std::get<OpCase>(instance.param).name + suffix_of(std::get<Path>(instance.param));
};

class GpuOpTable : public OpTable {};

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
  for (const Difference& difference : compare_backends(op_case(), *cpu, *cuda_))
    EXPECT_LE(difference.error, op_case().tolerance) << difference.what << "; " << op_case().reason;
}

TEST_P(GpuOpTable, RepeatsItsBits) { expect_same_bits(op_case(), *cuda_); }

TEST_P(GpuOpTable, GradientsAccumulate) {
  for (const Difference& difference : accumulation_errors(op_case(), *cuda_, DType::f32))
    EXPECT_LE(difference.error, 1e-6) << difference.what;
}

/// Fused operations whose products have operands of 11 bits in tf32: those over pairs of tokens, the SKA core, and
/// scans by chunks.
std::vector<OpCase> rounded_cases() {
  std::vector<OpCase> cases = op_cases();
  std::erase_if(cases, [](const OpCase& each) {
    return std::ranges::none_of(std::array{"attention", "feedback", "ridge", "ssd_scan", "delta", "gla"},
                                [&](const char* name) { return each.name.find(name) != std::string::npos; });
  });
  return cases;
}

using GpuOpTableInTf32 = InPrecision<OpTable, Precision::tf32>;

TEST_P(GpuOpTableInTf32, AgreesWithTheCpu) {
  // L^-1 behind the SKA core's filter multiplies what was rounded by the root of a condition number.
  const double most = op_case().name.find("ridge") == std::string::npos ? 4e-3 : 1.2e-2;
  const std::unique_ptr<Backend> cpu = make_cpu_backend(2);
  for (const Difference& difference : compare_backends(op_case(), *cpu, *cuda_))
    EXPECT_LE(difference.error, most) << difference.what << ": operands are rounded to one part in 4096";
}

TEST_P(GpuOpTableInTf32, RepeatsItsBits) { expect_same_bits(op_case(), *cuda_); }

/// All operations: small products round to tf32 in their tiles, larger ones and the Gated KalmaNet core to bfloat16.
using GpuOpTableInBf16 = InPrecision<OpTable, Precision::bf16>;

TEST_P(GpuOpTableInBf16, AgreesWithTheCpu) {
  const std::unique_ptr<Backend> cpu = make_cpu_backend(2);
  for (const Difference& difference : compare_backends(op_case(), *cpu, *cuda_))
    EXPECT_LE(difference.error, 2 * 2 * unit_roundoff_of_bf16) << difference.what << ": two products of two operands";
}

TEST_P(GpuOpTableInBf16, RepeatsItsBits) { expect_same_bits(op_case(), *cuda_); }

INSTANTIATE_TEST_SUITE_P(All, GpuOpTableInBf16, ::testing::Combine(::testing::ValuesIn(op_cases()), both_paths),
                         name_of_case);

INSTANTIATE_TEST_SUITE_P(All, GpuOpTableInTf32, ::testing::Combine(::testing::ValuesIn(rounded_cases()), both_paths),
                         name_of_case);

INSTANTIATE_TEST_SUITE_P(All, GpuOpTable, ::testing::Combine(::testing::ValuesIn(op_cases()), both_paths),
                         name_of_case);

}  // namespace
}  // namespace afterglow::testing
