// Products as they are computed while other back ends share the GPU: by other blocks, with the same bits.
#include <gtest/gtest.h>

#include "core/random/random.h"
#include "tests/gpu/gpu_test.h"
#include "tests/support/host_values.h"

namespace afterglow::testing {
namespace {

struct Sizes {
  std::int64_t rows, outputs, inputs;
};

class CrowdedProducts : public OnGpu<::testing::TestWithParam<Sizes>> {
 protected:
  void SetUp() override {
    OnGpu::SetUp();
    if (cuda_ != nullptr) host_ = std::make_unique<HostValues>(*cuda_);
  }
  void TearDown() override {
    if (cuda_ == nullptr) return;
    cuda_->expect_side_by_side(1);
    cuda_->set_precision(Precision::fp32);
  }
  Tensor random(std::int64_t rows, std::int64_t columns, std::uint64_t seed) {
    Random random(seed);
    std::vector<float> values(static_cast<std::size_t>(rows * columns));
    for (float& value : values) value = static_cast<float>(random.normal());
    return host_->f32({rows, columns}, values);
  }
  /// What `work` leaves in `results`, whose numbers are the same before each time.
  std::vector<std::vector<float>> bits(std::size_t back_ends, const std::vector<Tensor>& results,
                                       const std::function<void()>& work) {
    cuda_->expect_side_by_side(back_ends);
    for (const Tensor& result : results) cuda_->copy(result, random(result.rows(), result.columns(), 9));
    work();
    cuda_->join_side_stream();
    std::vector<std::vector<float>> all;
    for (const Tensor& result : results) all.push_back(host_->read<float>(result));
    return all;
  }
  void expect_same(const std::vector<Tensor>& results, const std::function<void()>& work, const char* what) {
    const auto alone = bits(1, results, work), among_others = bits(16, results, work);
    for (std::size_t i = 0; i < results.size(); ++i)
      EXPECT_EQ(among_others[i], alone[i]) << what << ", result " << i << " " << results[i].shape.text();
    EXPECT_NE(alone[0], bits(1, results, [] {})[0]) << what << " wrote nothing";
  }

  void expect_all_the_same() {
    const auto [rows, outputs, inputs] = GetParam();
    const Tensor x = random(rows, inputs, 1), up = random(outputs, inputs, 2), gate = random(outputs, inputs, 3),
                 bias = random(1, outputs, 4).reshaped({outputs});
    const Tensor y = random(rows, outputs, 5), z = random(rows, outputs, 6), h = random(rows, outputs, 7);
    const std::vector<Tensor> weights{up, gate}, answers{y, z};
    expect_same(
        answers, [&] { cuda_->linear_forward_many(x, weights, {}, answers, {}); }, "projections");
    const std::vector<Tensor> biases{bias, Tensor()};
    expect_same(
        answers, [&] { cuda_->linear_forward_many(x, weights, biases, answers, {}); }, "with biases");
    const Tensor dx = random(rows, inputs, 8);
    expect_same(
        {dx},
        [&] {
          cuda_->gemm_sum(answers, weights, {dx, true});
        },
        "gradient of the input");
    const Tensor dup = random(outputs, inputs, 10), dgate = random(outputs, inputs, 11);
    const std::vector<Grad> into{{dup, true}, {dgate, false}};
    expect_same(
        {dup, dgate}, [&] { cuda_->linear_gradients(answers, x, into, {}); }, "gradients of the weights");
    const auto kept = [&] {
      const SideStream beside(*cuda_);
      cuda_->linear_gradients(answers, x, into, {});
    };
    expect_same({dup, dgate}, kept, "kept gradients");
    expect_same(
        {y, z, h}, [&] { cuda_->swiglu_gate_up(x, gate, up, y, z, h); }, "gated lift");
    const Tensor dg = random(rows, outputs, 12), du = random(rows, outputs, 13), dy = random(rows, inputs, 14),
                 down = random(inputs, outputs, 15);
    expect_same(
        {dg, du}, [&] { cuda_->swiglu_gate_up_backward(dy, down, y, z, dg, du); }, "its gradient");
  }

  std::unique_ptr<HostValues> host_;
};

TEST_P(CrowdedProducts, HaveTheBitsThatTheyHaveAlone) { expect_all_the_same(); }
TEST_P(CrowdedProducts, HaveThemInTf32) {
  EXPECT_TRUE(cuda_->set_precision(Precision::tf32));
  expect_all_the_same();
}

INSTANTIATE_TEST_SUITE_P(All, CrowdedProducts,
                         ::testing::Values(Sizes{1024, 128, 128}, Sizes{1024, 384, 128}, Sizes{2048, 292, 64},
                                           Sizes{2048, 64, 128}, Sizes{512, 128, 700}, Sizes{1, 1, 1},
                                           Sizes{37, 101, 65}, Sizes{65, 63, 37}, Sizes{300, 31, 1030},
                                           Sizes{4096, 40, 24}, Sizes{70, 33, 4100}),
                         [](const auto& instance) {
                           const Sizes& n = instance.param;
                           return std::to_string(n.rows) + "x" + std::to_string(n.outputs) + "x" +
                                  std::to_string(n.inputs);
                         });

}  // namespace
}  // namespace afterglow::testing
