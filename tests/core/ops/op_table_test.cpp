// Every case of the operation table on the CPU: against naive loops, against finite differences, in float32, with
// several numbers of threads, accumulating.
#include <gmock/gmock.h>

#include <cmath>

#include "core/random/random.h"
#include "tests/support/op_case.h"

namespace afterglow::testing {

void PrintTo(const OpCase& op_case, std::ostream* out) { *out << op_case.name; }

namespace {

class OpTable : public ::testing::TestWithParam<OpCase> {
 protected:
  std::unique_ptr<Backend> backend_ = make_cpu_backend(2);
};

double dot(const Values& a, const Values& b) {
  double sum = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

/// Single elements first, spread over the input, then two directions through all of them.
std::vector<Values> directions(std::size_t count) {
  std::vector<Values> result;
  const std::size_t singles = std::min<std::size_t>(count, 12);
  for (std::size_t i = 0; i < singles; ++i) {
    result.emplace_back(count, 0.0);
    result.back()[i * count / singles] = 1.0;
  }
  Random random(7);
  for (int i = 0; i < 2; ++i) {
    result.emplace_back(count);
    for (double& value : result.back()) value = random.normal();
  }
  return result;
}

TEST_P(OpTable, AgreesWithNaiveLoops) {
  const OpCase& op_case = GetParam();
  ASSERT_TRUE(op_case.naive) << "an operation without loops to be held against";
  const OpInputs inputs = inputs_of(op_case);
  const Values got = OpRunner(op_case, *backend_, DType::f64).output(inputs);
  EXPECT_LE(relative_error(got, op_case.naive(inputs.inputs, inputs.data)), 1e-11);
}

TEST_P(OpTable, GradientsAgreeWithFiniteDifferences) {
  const OpCase& op_case = GetParam();
  const OpInputs inputs = inputs_of(op_case);
  OpRunner runner(op_case, *backend_, DType::f64);
  const OpResult result = runner.result(inputs);
  const Values projection = OpRunner::projection(result.output.size());
  const auto loss_at = [&](std::size_t input, const Values& direction, double distance) {
    OpInputs moved = inputs;
    for (std::size_t i = 0; i < direction.size(); ++i) moved.inputs[input][i] += distance * direction[i];
    return dot(runner.output(moved), projection);
  };
  for (std::size_t input = 0; input < op_case.inputs.size(); ++input) {
    const Values& gradient = result.gradients[input];
    const double typical = std::sqrt(dot(gradient, gradient) / static_cast<double>(gradient.size()));
    for (const Values& direction : directions(gradient.size())) {
      const double length = std::sqrt(dot(direction, direction)), h = 1e-5 / length;
      const double want = (loss_at(input, direction, h) - loss_at(input, direction, -h)) / (2.0 * h * length);
      const double got = dot(gradient, direction) / length;
      const double rounding = 1e-9 * (1.0 + std::abs(dot(result.output, projection)));
      EXPECT_NEAR(got, want, 1e-6 * (std::abs(want) + typical) + rounding) << op_case.inputs[input].name;
    }
  }
}

TEST_P(OpTable, Float32IsCloseToFloat64) {
  for (const Difference& difference : compare_backends(GetParam(), *backend_, *backend_))
    EXPECT_LE(difference.error, GetParam().tolerance) << difference.what << "; " << GetParam().reason;
}

TEST_P(OpTable, NumberOfThreadsDoesNotChangeBits) {
  const OpCase& op_case = GetParam();
  const OpInputs inputs = inputs_of(op_case);
  for (const DType dtype : {DType::f32, DType::f64}) {
    const std::unique_ptr<Backend> one = make_cpu_backend(1);
    const OpResult want = OpRunner(op_case, *one, dtype).result(inputs);
    for (const int threads : {2, 3}) {
      const std::unique_ptr<Backend> several = make_cpu_backend(threads);
      const OpResult got = OpRunner(op_case, *several, dtype).result(inputs);
      EXPECT_EQ(got.output, want.output) << threads << " threads";
      EXPECT_EQ(got.gradients, want.gradients) << threads << " threads";
    }
  }
}

TEST_P(OpTable, GradientsAccumulate) {
  for (const Difference& difference : accumulation_errors(GetParam(), *backend_, DType::f64))
    EXPECT_LE(difference.error, 1e-13) << difference.what;
}

// One compiler cancels a gradient to 0, another to 1e-18: neither may divide noise by noise, and a wrong gradient still
// shows.
TEST(GradientError, IsRelativeToTheLargestGradientWhereTermsCancel) {
  const OpResult want{{}, {{3.0, 4.0}, {1e-18, 0.0}, {0.0, 0.0}}};
  const OpResult got{{}, {{3.0, 4.0}, {-2e-8, 0.0}, {0.5, 0.0}}};
  EXPECT_EQ(gradient_error(got, want, 0), 0.0);
  EXPECT_NEAR(gradient_error(got, want, 1), 4e-9, 1e-15);
  EXPECT_EQ(gradient_error(got, want, 2), 0.1);
  EXPECT_EQ(gradient_error({{}, {{3.0, 4.5}}}, {{}, {{3.0, 4.0}}}, 0), 0.1);
}

INSTANTIATE_TEST_SUITE_P(All, OpTable, ::testing::ValuesIn(op_cases()),
                         [](const auto& instance) { return instance.param.name; });

}  // namespace
}  // namespace afterglow::testing
