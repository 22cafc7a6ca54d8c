// The feedback solve on the GPU where the table of cases does not reach: 4,096 tokens.
#include "tests/gpu/gpu_test.h"
#include "tests/support/uniform_feedback.h"

namespace afterglow::testing {
namespace {

using FeedbackSolveOnGpu = GpuTest;

TEST_F(FeedbackSolveOnGpu, MeetsTheClosedFormOfUniformRouting) {
  for (const double gamma : {0.5, 0.9, -0.5})
    EXPECT_LE(uniform_feedback_error(*cuda_, DType::f32, 4096, gamma), 2e-6) << gamma;
}

}  // namespace
}  // namespace afterglow::testing
