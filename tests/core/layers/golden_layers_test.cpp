// Every layer, and what else runs from a file, against its golden files, in both types.
#include <gmock/gmock.h>

#include "tests/support/golden_layer.h"

namespace afterglow::testing {
namespace {

class GoldenLayers : public ::testing::TestWithParam<std::string> {
 protected:
  std::unique_ptr<Backend> backend_ = make_cpu_backend(2);
};

// Conjugate gradient enlarges the rounding of its sums where it is about to end: its residuals have the file's
// tolerance.
TEST_P(GoldenLayers, Float64AgreesToNineDigits) {
  GoldenLayer layer(GetParam(), *backend_, DType::f64);
  for (const Difference& difference : layer.compare()) {
    const bool depends_on_rounding = difference.what == "probe.residual_cg";
    EXPECT_LE(difference.error, depends_on_rounding ? layer.tolerance(difference.what) : 1e-9) << difference.what;
  }
}

TEST_P(GoldenLayers, Float32AgreesWithinTheFilesTolerance) {
  GoldenLayer layer(GetParam(), *backend_, DType::f32);
  for (const Difference& difference : layer.compare())
    EXPECT_LE(difference.error, layer.tolerance(difference.what)) << difference.what;
}

TEST_P(GoldenLayers, StepsEqualForward) {
  // In its other modes SKA reads statistics of tokens that a step has not seen yet, or forgets those of the last chunk.
  if (GetParam().rfind("ska_", 0) == 0 && GetParam().rfind("ska_recurrent", 0) != 0)
    GTEST_SKIP() << "only the recurrent mode is the same token by token";
  GoldenLayer golden(GetParam(), *backend_, DType::f64);
  if (!golden.is_layer()) GTEST_SKIP() << "has no steps";
  EXPECT_LE(golden.forward_against_steps(), 1e-11);
}

INSTANTIATE_TEST_SUITE_P(All, GoldenLayers, ::testing::ValuesIn(golden_layer_files()),
                         [](const auto& instance) { return instance.param; });

}  // namespace
}  // namespace afterglow::testing
