// What operations say about wrong inputs: the place, the operation, what was expected and what came.
#include <gmock/gmock.h>

#include "core/io/error.h"
#include "core/ops/ops.h"
#include "tests/support/host_values.h"

namespace afterglow::testing {
namespace {

using ::testing::HasSubstr;

class Messages : public ::testing::Test {
 protected:
  Messages() { tape_.begin(true); }
  Var zeros(const Shape& shape) { return tape_.input(host_.f32(shape, std::vector<float>(shape.elements(), 0.0f))); }
  template <class Action>
  std::string message_of(const Action& action) {
    try {
      action();
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  }
  std::unique_ptr<Backend> backend_ = make_cpu_backend(1);
  HostValues host_{*backend_};
  Arena arena_{*backend_};
  Tape tape_{*backend_, arena_};
};

TEST_F(Messages, NameShapes) {
  const Var x = zeros({2, 3, 128});
  EXPECT_EQ(message_of([&] { rms_norm(tape_, x, zeros({64}), 1e-5); }), "rms_norm: weight must be [128], got [64]");
  EXPECT_EQ(message_of([&] { linear(tape_, x, zeros({5, 64})); }), "linear: weight must be [any, 128], got [5, 64]");
  EXPECT_EQ(message_of([&] { add(tape_, x, zeros({2, 384})); }), "add: b must be [2, 3, 128], got [2, 384]");
  EXPECT_THAT(message_of([&] {
                causal_conv(tape_, x, zeros({64, 1, 4}), {});
              }),
              HasSubstr("weight must be [128, 1, any]"));
  const auto with_steps = [&](const Var& steps, const Var& steps_bias) {
    return message_of([&] { conv_with_steps(tape_, x, zeros({128, 1, 4}), {}, {}, steps, steps_bias, {}); });
  };
  EXPECT_EQ(with_steps(zeros({2, 4, 5}), zeros({5})), "conv_with_steps: steps must be [2, 3, 5], got [2, 4, 5]");
  EXPECT_EQ(with_steps(zeros({2, 3, 5}), zeros({4})), "conv_with_steps: steps_bias must be [5], got [4]");
}

TEST_F(Messages, NameThePlaceInTheModel) {
  const Tape::Scope layer(tape_, "layers.1"), mixer(tape_, "mixer");
  EXPECT_EQ(message_of([&] { scale(tape_, add(tape_, zeros({2}), zeros({3})), 1.0); }),
            "layers.1.mixer: add: b must be [2], got [3]");
}

TEST_F(Messages, NameTypes) {
  const Var x = zeros({2, 3}), wide = tape_.input(host_.f64({3}, {1, 2, 3}));
  EXPECT_EQ(message_of([&] { rms_norm(tape_, x, wide, 1e-5); }), "rms_norm: weight must be float32, got float64");
  EXPECT_THAT(message_of([&] { embedding(tape_, x.value, zeros({5, 2})); }), HasSubstr("tokens must be int32"));
}

TEST_F(Messages, RefuseColumnsWhereRowsMustBeAdjacent) {
  const std::int64_t widths[] = {2, 2};
  Var parts[2];
  tape_.split_columns(zeros({3, 4}), widths, parts);
  EXPECT_THAT(message_of([&] { add(tape_, parts[0], parts[1]); }), HasSubstr("must be contiguous"));
  EXPECT_EQ(message_of([&] { linear(tape_, parts[0], zeros({1, 2})); }), "no error");
}

TEST_F(Messages, RefuseImpossibleHeads) {
  EXPECT_THAT(message_of([&] {
                causal_attention(tape_, zeros({1, 4, 3, 2}), zeros({1, 4, 2, 2}), zeros({1, 4, 2, 2}), 1.0);
              }),
              HasSubstr("must divide"));
  EXPECT_THAT(message_of([&] {
                causal_attention(tape_, zeros({1, 4, 2, 2}), zeros({1, 3, 2, 2}), zeros({1, 3, 2, 2}), 1.0);
              }),
              HasSubstr("as many keys as queries"));
}

TEST_F(Messages, RefuseGradientsThroughAHistory) {
  const Tensor history = host_.f32({1, 3, 2}, std::vector<float>(6, 0.0f));
  const Var x = zeros({1, 1, 2}), weight = zeros({2, 1, 4});
  EXPECT_THAT(message_of([&] { causal_conv(tape_, x, weight, {}, history); }), HasSubstr("history"));
}

}  // namespace
}  // namespace afterglow::testing
