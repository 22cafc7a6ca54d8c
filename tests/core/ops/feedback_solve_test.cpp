// What the table of cases cannot say of the feedback solve: closed form, hops, limits.
#include <gmock/gmock.h>

#include <algorithm>
#include <utility>

#include "core/random/random.h"
#include "tests/support/counted_allocations.h"
#include "tests/support/op_case.h"
#include "tests/support/uniform_feedback.h"

namespace afterglow::testing {
namespace {

class FeedbackSolve : public ::testing::Test {
 protected:
  explicit FeedbackSolve(int threads = 2) : backend_(make_cpu_backend(threads)) {}
  Tensor random(const Shape& shape) {
    Values values(static_cast<std::size_t>(shape.elements()));
    for (double& value : values) value = random_.normal();
    return host_.f64(shape, values);
  }
  std::unique_ptr<Backend> backend_;
  HostValues host_{*backend_};
  Arena arena_{*backend_};
  Tape tape_{*backend_, arena_};
  Random random_{5};
};

TEST_F(FeedbackSolve, MeetsTheClosedFormOfUniformRouting) {
  for (const double gamma : {0.5, 0.9, -0.5}) {
    EXPECT_LE(uniform_feedback_error(*backend_, DType::f64, 4096, gamma), 1e-11) << gamma;
    EXPECT_LE(uniform_feedback_error(*backend_, DType::f32, 4096, gamma), 2e-6) << gamma;
  }
}

// s = sum over k of B^k f (remark 3.1): B is nilpotent, so T hops are all.
TEST_F(FeedbackSolve, IsTheSumOverHops) {
  const std::int64_t length = 70, width = 5;
  tape_.begin(false);
  const Tensor q = random({1, length, width}), k = random({1, length, width}), f = random({1, length, 3});
  Values gamma(static_cast<std::size_t>(length));
  for (double& value : gamma) value = 2.0 * random_.uniform() - 1.0;
  const Var gain = tape_.constant(host_.f64({1, length}, gamma));
  const Var s = feedback_solve(tape_, {tape_.constant(q), tape_.constant(k), gain, tape_.constant(f)}, 0.7);
  const Values query = host_.read<double>(q), key = host_.read<double>(k);
  Values B(static_cast<std::size_t>(length * length), 0.0);
  for (std::int64_t t = 1; t < length; ++t) {
    double sum = 0.0;
    for (std::int64_t j = 0; j < t; ++j) {
      double score = 0.0;
      for (std::int64_t e = 0; e < width; ++e) score += query[t * width + e] * key[j * width + e];
      sum += B[t * length + j] = std::exp(0.7 * score);
    }
    for (std::int64_t j = 0; j < t; ++j) B[t * length + j] *= gamma[t] / sum;
  }
  Values hop = host_.read<double>(f), want = hop;
  for (std::int64_t n = 1; n < length; ++n) {
    Values next(hop.size(), 0.0);
    for (std::int64_t t = 0; t < length; ++t)
      for (std::int64_t j = 0; j < t; ++j)
        for (std::int64_t e = 0; e < 3; ++e) next[t * 3 + e] += B[t * length + j] * hop[j * 3 + e];
    hop = next;
    for (std::size_t i = 0; i < hop.size(); ++i) want[i] += hop[i];
  }
  EXPECT_LE(relative_error(host_.read<double>(s.value), want), 1e-13);
}

// The second token has one predecessor, which it reads with weight 1 whatever the score: queries and keys of two tokens
// have no gradient, and what is computed for them is rounding alone.
TEST_F(FeedbackSolve, TwoTokensGiveScoresNoGradient) {
  const std::vector<OpCase> cases = op_cases();
  const auto two_tokens = std::ranges::find(cases, "feedback_solve_3x2x5over3", &OpCase::name);
  ASSERT_NE(two_tokens, cases.end());
  for (const auto& [dtype, rounding] : {std::pair{DType::f64, 1e-15}, std::pair{DType::f32, 1e-6}}) {
    const OpResult result = OpRunner(*two_tokens, *backend_, dtype).result(inputs_of(*two_tokens));
    EXPECT_THAT(result.gradients[0], ::testing::Each(::testing::DoubleNear(0.0, rounding)));
    EXPECT_GT(std::ranges::max(result.gradients[2]), 0.1) << "the right-hand sides have one";
  }
}

/// A second thread makes its scratch memory whenever it first takes part.
class FeedbackSolveOnOneThread : public FeedbackSolve {
 protected:
  FeedbackSolveOnOneThread() : FeedbackSolve(1) {}
};

// No T x T matrix, neither kept for the gradient nor in passing: what is held grows by as much from 1024 to 2048 tokens
// as twice from 512 to 1024, and no single piece comes near a matrix.
TEST_F(FeedbackSolveOnOneThread, TakesMemoryLinearInTheLength) {
  std::vector<std::size_t> held;
  for (const std::int64_t length : {512, 1024, 2048}) {
    const Tensor q = random({1, length, 8}), f = random({1, length, 8});
    const Tensor gain = host_.f64({1, length}, Values(static_cast<std::size_t>(length), 0.5));
    for (int pass = 0; pass < 3; ++pass) {  // in the last one the arena has grown
      max_allocation();
      tape_.begin(true);
      const Var query = tape_.input(q), right = tape_.input(f);
      const Var s = feedback_solve(tape_, {query, query, tape_.input(gain), right}, 0.3);
      tape_.backward(s, f);
    }
    held.push_back(arena_.used());
    const auto matrix = static_cast<std::size_t>(length * length) * sizeof(double);
    EXPECT_LT(held.back(), matrix / 2) << length;
    EXPECT_LT(max_allocation(), matrix / 8) << length;
  }
  EXPECT_LE(held[2] - held[1], 2 * (held[1] - held[0]) + 4096);
}

TEST_F(FeedbackSolve, WithoutGainAnswersTheRightHandSide) {
  tape_.begin(false);
  const Var q = tape_.constant(random({2, 65, 4})), f = tape_.constant(random({2, 65, 6}));
  const Var gain = tape_.constant(host_.f64({2, 65}, Values(130, 0.0)));
  const Var s = feedback_solve(tape_, {q, q, gain, f}, 1.0);
  EXPECT_EQ(host_.read<double>(s.value), host_.read<double>(f.value));
}

// Logits of +-1e4 route to one token each; nothing overflows.
TEST_F(FeedbackSolve, StaysFiniteWhenRoutingIsSharp) {
  tape_.begin(true);
  const Var q = tape_.input(random({1, 100, 8})), f = tape_.input(random({1, 100, 8}));
  const Var gain = tape_.input(host_.f64({1, 100}, Values(100, 0.999)));
  const Var s = feedback_solve(tape_, {q, q, gain, f}, 1e4);
  tape_.backward(s, f.value);
  for (const Tensor& tensor : {s.value, tape_.gradient_of(q), tape_.gradient_of(gain), tape_.gradient_of(f)})
    EXPECT_EQ(backend_->first_non_finite(tensor), -1);
}

}  // namespace
}  // namespace afterglow::testing
