// Kernels that read before the kernel in front of them has ended: the numbers must be those that come one after the
// other.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/layers/layer_kind.h"
#include "core/ops/ops.h"
#include "tests/gpu/gpu_test.h"
#include "tests/support/host_values.h"
#include "tests/support/op_case.h"

namespace afterglow::testing {
namespace {

struct ProductSizes {
  std::int64_t rows, inputs, outputs;
};

// Products take their weights early while these are held.
class HeldWeightsOnGpu : public OnGpu<::testing::TestWithParam<ProductSizes>> {
 protected:
  void SetUp() override {
    OnGpu::SetUp();
    if (cuda_ == nullptr) return;
    host_ = std::make_unique<HostValues>(*cuda_);
    const auto& [rows, inputs, outputs] = GetParam();
    x_ = host_->f32({rows, inputs}, random_floats(rows * inputs, 1));
    written_ = host_->f32({2 * outputs, inputs}, random_floats(2 * outputs * inputs, 3));
    weights_ = zeros(2 * outputs, inputs);
    gate_ = Tensor(weights_.as<float>(), {outputs, inputs}, DType::f32);
    up_ = Tensor(weights_.as<float>() + outputs * inputs, {outputs, inputs}, DType::f32);
    down_ = Tensor(weights_.as<float>(), {inputs, outputs}, DType::f32);
    for (Tensor* result : {&g_, &u_, &h_, &dg_, &du_}) *result = zeros(rows, outputs);
    dx_ = zeros(rows, inputs);
  }
  Tensor zeros(std::int64_t rows, std::int64_t columns) {
    return host_->f32({rows, columns}, std::vector<float>(static_cast<std::size_t>(rows * columns)));
  }
  /// A projection, one after the other, a gated one, and the gradients of their inputs.
  void multiply() {
    const Tensor both[] = {gate_, up_}, results[] = {g_, u_}, slopes[] = {dg_, du_};
    cuda_->linear_forward_many(x_, both, {}, results, {});
    cuda_->swiglu_gate_up(x_, gate_, up_, g_, u_, h_);
    cuda_->linear_forward_many(h_, {&down_, 1}, {}, {&dx_, 1}, {});
    cuda_->swiglu_gate_up_backward(x_, down_, g_, u_, dg_, du_);
    cuda_->gemm_sum(slopes, both, {dx_, true});
  }
  std::vector<std::vector<float>> read() const {
    std::vector<std::vector<float>> all;
    for (const Tensor& result : {g_, u_, h_, dg_, du_, dx_}) all.push_back(host_->read<float>(result));
    return all;
  }

  std::unique_ptr<HostValues> host_;
  Tensor x_, written_, weights_, gate_, up_, g_, u_, h_, dg_, du_, dx_, down_;
};

// Weights are written by the kernel right in front of where they are held, each time other ones.
TEST_P(HeldWeightsOnGpu, AreThoseThatWereWrittenBefore) {
  for (const double factor : {1.0, -2.0, 0.5, 3.0, -0.25}) {
    cuda_->scale(written_, factor, {weights_, false});
    cuda_->synchronize();
    multiply();
    const auto want = read();
    for (int again = 0; again < 20; ++again) {
      cuda_->fill(weights_, 1e6);
      cuda_->synchronize();
      cuda_->scale(written_, factor, {weights_, false});
      cuda_->hold_weights(weights_, {});
      multiply();
      cuda_->release_weights();
      ASSERT_EQ(read(), want) << "factor " << factor << ", again " << again;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, HeldWeightsOnGpu,
                         ::testing::Values(ProductSizes{1024, 128, 384}, ProductSizes{1000, 100, 52},
                                           ProductSizes{32, 64, 64}, ProductSizes{65, 200, 33},
                                           ProductSizes{512, 768, 128}),
                         [](const auto& sizes) {
                           return std::to_string(sizes.param.rows) + "x" + std::to_string(sizes.param.inputs) + "x" +
                                  std::to_string(sizes.param.outputs);
                         });

class EarlyReads : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (cuda_ != nullptr) host_ = std::make_unique<HostValues>(*cuda_);
  }
  std::unique_ptr<HostValues> host_;
};

// AdamW right after the norm, which then reads its numbers early, and with another kernel between.
TEST_F(EarlyReads, OfTheOptimiserSeeEveryGradient) {
  const std::int64_t count = 64 * 9000;
  const std::vector<float> zeros(count), start = random_floats(count, 4);
  const Tensor gradients = host_->f32({count}, random_floats(count, 5)), norms = host_->f32({1}, {0}),
               offsets = host_->f64({2}, {0, static_cast<double>(count)}), other = host_->f32({1}, {0});
  AdamwTensors t;
  t.gradients = host_->f32({count}, zeros);
  t.weights = host_->f32({count}, start);
  t.first_moment = host_->f32({count}, zeros);
  t.second_moment = host_->f32({count}, zeros);
  t.decay_mask = host_->tensor({count / parameter_block}, DType::u8, std::vector<std::uint8_t>(count / 64, 1));
  t.hyperparameters = host_->f64({6}, {0.01, 0.9, 0.95, 1e-8, 0.1, 1.0});
  t.step = host_->i32({1}, {0});
  t.gradient_norm = host_->f32({1}, {0});
  const auto train = [&](bool right_behind) {
    cuda_->upload(t.weights, start.data());
    for (const Tensor& moment : {t.first_moment, t.second_moment}) cuda_->upload(moment, zeros.data());
    const std::int32_t step = 0;
    cuda_->upload(t.step, &step);
    for (int i = 0; i < 30; ++i) {
      cuda_->scale(gradients, 1.0 + i, {t.gradients, false});
      cuda_->gradient_norms(t.gradients, offsets, norms, t.gradient_norm);
      if (!right_behind) cuda_->fill(other, 1.0);
      cuda_->adamw(t);
    }
    return host_->read<float>(t.weights);
  };
  EXPECT_EQ(train(true), train(false));
}

// Two Mamba-2 layers whose scans go by chunks, and read their steps early in the backward pass.
TEST_F(EarlyReads, OfScansSeeTheirSteps) {
  const auto gradients = [](Backend& backend, DType dtype) {
    ParameterStore store;
    std::vector<std::unique_ptr<Layer>> layers;
    for (const char* name : {"first", "second"}) {
      layers.push_back(make_layer("mamba2", nlohmann::json::parse(R"({"d_model": 256, "headdim": 64, "d_state": 16})"),
                                  ParameterScope(store, name)));
    }
    store.allocate(backend, dtype);
    store.initialise(3);
    Arena arena(backend);
    Tape tape(backend, arena);
    HostValues host(backend);
    const Shape shape{2, 300, 256};
    const auto input = [&](std::uint64_t seed) {
      const std::vector<float> numbers = random_floats(shape.elements(), seed);
      return dtype == DType::f32 ? host.f32(shape, numbers)
                                 : host.f64(shape, std::vector<double>(numbers.begin(), numbers.end()));
    };
    tape.begin(true);
    Var y = tape.input(input(1));
    for (const auto& layer : layers) y = layer->forward(tape, y, {});
    tape.backward(y, input(2));
    std::vector<std::pair<std::string, Values>> all;
    for (const Parameter& parameter : store.all()) all.emplace_back(parameter.name, store.download(parameter.gradient));
    return all;
  };
  const std::unique_ptr<Backend> cpu = make_cpu_backend(1);
  const auto want = gradients(*cpu, DType::f64), got = gradients(*cuda_, DType::f32);
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i)
    EXPECT_LT(relative_error(got[i].second, want[i].second), 2e-5) << got[i].first;
  EXPECT_EQ(gradients(*cuda_, DType::f32), got);
}

}  // namespace
}  // namespace afterglow::testing
