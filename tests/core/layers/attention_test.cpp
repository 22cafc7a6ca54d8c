// Attention token by token, its growing memory, its capture and its configuration.
#include <gmock/gmock.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "core/io/error.h"
#include "core/layers/layer_kind.h"
#include "core/random/random.h"
#include "tests/support/host_values.h"
#include "tests/support/op_case.h"

namespace afterglow::testing {
namespace {

using ::testing::HasSubstr;

class AttentionLayer : public ::testing::Test {
 protected:
  void make(const nlohmann::json& config) {
    layer_ = make_layer("attention", config, ParameterScope(store_, ""));
    store_.allocate(*backend_, DType::f64);
    store_.initialise(1);
  }
  Tensor random_tensor(const Shape& shape) {
    Values values(static_cast<std::size_t>(shape.elements()));
    for (double& value : values) value = random_.normal();
    return host_.f64(shape, values);
  }
  std::unique_ptr<Backend> backend_ = make_cpu_backend(2);
  HostValues host_{*backend_};
  Arena arena_{*backend_};
  Tape tape_{*backend_, arena_};
  ParameterStore store_;
  std::unique_ptr<Layer> layer_;
  Random random_{2};
};

TEST_F(AttentionLayer, StepsEqualForwardWhileTheMemoryGrows) {
  make({{"d", 16}, {"n_heads", 4}, {"n_kv_heads", 2}});
  const std::int64_t batch = 2, length = 150;
  const Tensor x = random_tensor({batch, length, 16}), token = random_tensor({batch, 1, 16});
  arena_.set_poison(true);
  tape_.begin(false);
  const Values want = host_.read<double>(layer_->forward(tape_, tape_.constant(x), {}).value);
  LayerState state = layer_->make_state(*backend_, DType::f64, batch);
  EXPECT_EQ(state.get("keys").shape, Shape({2, 64, 2, 4}));
  Values got(want.size());
  for (std::int64_t t = 0; t < length; ++t) {
    tape_.begin(false);
    backend_->copy(token.reshaped({batch, 16}), x.reshaped({batch, length * 16}).column_range(t * 16, 16));
    const Values y = host_.read<double>(layer_->step(tape_, tape_.constant(token), state).value);
    for (std::int64_t b = 0; b < batch; ++b) std::copy_n(y.begin() + b * 16, 16, got.begin() + (b * length + t) * 16);
  }
  EXPECT_LE(relative_error(got, want), 1e-13);
  EXPECT_EQ(state.position, length);
  EXPECT_EQ(state.get("values").shape, Shape({2, 256, 2, 4}));
  EXPECT_EQ(state.bytes(), 2u * 2 * 256 * 2 * 4 * 8);
  EXPECT_EQ(layer_->state_bytes(DType::f32, 150), 2 * 150 * 2 * 4 * 4);
}

TEST_F(AttentionLayer, MovesItsState) {
  make({{"d", 4}, {"n_heads", 1}, {"use_rope", false}});
  LayerState first = layer_->make_state(*backend_, DType::f64, 1);
  tape_.begin(false);
  const Var x = tape_.constant(random_tensor({1, 1, 4}));
  layer_->step(tape_, x, first);
  LayerState second = std::move(first);
  EXPECT_EQ(second.position, 1);
  EXPECT_NO_THROW(layer_->step(tape_, x, second));
  first = layer_->make_state(*backend_, DType::f64, 1);
  EXPECT_THROW(first.get("nothing"), Error);
}

TEST_F(AttentionLayer, CapturesDistributions) {
  make({{"d", 12}, {"n_heads", 3}});
  tape_.begin(false);
  const Capturing capturing(tape_);
  layer_->forward(tape_, tape_.constant(random_tensor({2, 37, 12})), {});
  ASSERT_EQ(tape_.captures().size(), 6u) << "queries, keys, values, attn, input, readout";
  EXPECT_EQ(tape_.captures()[3].name, "attn");
  EXPECT_EQ(tape_.captures()[3].value.shape, Shape({2, 3, 37, 37}));
  const Values weights = host_.read<double>(tape_.captures()[3].value);
  for (std::int64_t row = 0; row < 2 * 3 * 37; ++row) {
    double sum = 0.0;
    for (std::int64_t j = 0; j < 37; ++j) {
      const double weight = weights[row * 37 + j];
      sum += weight;
      if (j > row % 37) {
        EXPECT_LE(weight, 1e-300);  // the vectorised exponential ends at its smallest number, not at 0
      }
    }
    EXPECT_NEAR(sum, 1.0, 1e-14);
  }
}

std::string message_of(const char* kind, const nlohmann::json& config) {
  ParameterStore store;
  try {
    make_layer(kind, config, ParameterScope(store, ""));
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(LayerRegistry, NamesTheFieldThatIsWrong) {
  EXPECT_EQ(message_of("attention", {{"d", 8}, {"n_heads", 2}}), "no error");
  EXPECT_THAT(message_of("attention", {{"d", 8}}), HasSubstr("n_heads"));
  EXPECT_THAT(message_of("attention", {{"d", 9}, {"n_heads", 2}}), HasSubstr("multiple of n_heads"));
  EXPECT_THAT(message_of("attention", {{"d", 8}, {"n_heads", 4}, {"n_kv_heads", 3}}), HasSubstr("n_kv_heads"));
  EXPECT_THAT(message_of("attention", {{"d", 8}, {"n_heads", 2}, {"rope_bas", 5}}), HasSubstr("rope_base"));
  EXPECT_THAT(message_of("swiglu", {{"d", 8}, {"d_ff", "many"}}), HasSubstr("d_ff"));
}

TEST(LayerRegistry, SuggestsTheNearestKind) {
  EXPECT_THAT(message_of("atention", {}), HasSubstr("did you mean 'attention'"));
  EXPECT_THAT(message_of("nonsense", {}), HasSubstr("swiglu"));
}

}  // namespace
}  // namespace afterglow::testing
