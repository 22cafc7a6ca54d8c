// Attention and the feedback solve on the GPU where the table of cases does not reach: 4,096 tokens, and gradients of
// any size.
#include <gmock/gmock.h>

#include <cmath>

#include "core/random/random.h"
#include "tests/gpu/gpu_test.h"
#include "tests/support/uniform_feedback.h"

namespace afterglow::testing {
namespace {

using FeedbackSolveOnGpu = GpuTest;

TEST_F(FeedbackSolveOnGpu, MeetsTheClosedFormOfUniformRouting) {
  for (const double gamma : {0.5, 0.9, -0.5})
    EXPECT_LE(uniform_feedback_error(*cuda_, DType::f32, 4096, gamma), 2e-6) << gamma;
}

class PairsOnGpu : public GpuTest {
 protected:
  void TearDown() override {
    if (cuda_ != nullptr) cuda_->set_precision(Precision::fp32);
  }

  /// Gradients of the inputs of attention, whose result is what feedback is solved for, and of the feedback's own, of
  /// the same upstream gradient times `factor`.
  std::vector<float> gradients(float factor) {
    HostValues host(*cuda_);
    Arena arena(*cuda_);
    Tape tape(*cuda_, arena);
    tape.begin(true);
    Random random(3);
    const auto numbers = [&](const Shape& shape, float scale) {
      std::vector<float> values(static_cast<std::size_t>(shape.elements()));
      for (float& value : values) value = scale * static_cast<float>(random.normal());
      return host.f32(shape, values);
    };
    const Shape heads{2, 150, 4, 16}, rows{2, 150, 64};
    const Var q = tape.input(numbers(heads, 1)), k = tape.input(numbers(heads, 1)), v = tape.input(numbers(heads, 1)),
              x = tape.input(numbers(rows, 1)), gamma = tape.input(numbers({2, 150}, 0.2f));
    const Var f = tape.reshape(causal_attention(tape, q, k, v, 0.25), rows);
    const Var s = feedback_solve(tape, {x, x, gamma, f}, 0.125);
    tape.backward(s, numbers(rows, factor));
    std::vector<float> all;
    for (const Var& input : {q, k, v, x, gamma}) {
      const std::vector<float> one = host.read<float>(tape.gradient_of(input));
      all.insert(all.end(), one.begin(), one.end());
    }
    return all;
  }
};

// Operands are scaled by powers of two before they are rounded to halves, so nothing is lost below what a half holds.
TEST_F(PairsOnGpu, SmallGradientsHaveTheDigitsOfLargeOnes) {
  for (const Precision precision : {Precision::fp32, Precision::tf32}) {
    cuda_->set_precision(precision);
    const std::vector<float> large = gradients(1.0f), small = gradients(std::ldexp(1.0f, -60));
    ASSERT_EQ(large.size(), small.size());
    EXPECT_THAT(large,
                ::testing::Not(::testing::Contains(::testing::Truly([](float x) { return !std::isfinite(x); }))));
    for (std::size_t i = 0; i < large.size(); ++i)
      ASSERT_EQ(std::ldexp(small[i], 60), large[i]) << name_of(precision) << ", number " << i;
  }
}

}  // namespace
}  // namespace afterglow::testing
