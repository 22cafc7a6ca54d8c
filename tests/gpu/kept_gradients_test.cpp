// Gradients of weights that are kept until they are worth a launch, against products one by one.
#include <gtest/gtest.h>

#include "core/random/random.h"
#include "tests/gpu/gpu_test.h"
#include "tests/support/host_values.h"
#include "tests/support/op_case.h"

namespace afterglow::testing {
namespace {

constexpr double tolerance = 2e-6;

class KeptGradients : public GpuTest {
 protected:
  struct Sizes {
    std::int64_t rows, outputs, inputs;
  };
  struct Asked {
    Tensor dresult, x, dweight, wanted;
  };

  void SetUp() override {
    GpuTest::SetUp();
    if (cuda_ != nullptr) host_ = std::make_unique<HostValues>(*cuda_);
  }
  Tensor random(std::int64_t rows, std::int64_t columns) {
    Random random(++seed_);
    std::vector<float> values(static_cast<std::size_t>(rows * columns));
    for (float& value : values) value = static_cast<float>(random.normal());
    return host_->f32({rows, columns}, values);
  }
  /// `wanted` is found in order, which keeps nothing.
  Asked ask(const Sizes& n) {
    const Asked asked{random(n.rows, n.outputs), random(n.rows, n.inputs), random(n.outputs, n.inputs),
                      random(n.outputs, n.inputs)};
    cuda_->gemm(true, false, 1.0, asked.dresult, asked.x, 0.0, asked.wanted);
    return asked;
  }
  void find_beside(const Asked& asked, const Grad& dweight) {
    const SideStream beside(*cuda_);
    cuda_->linear_gradients({&asked.dresult, 1}, asked.x, {&dweight, 1}, {});
  }
  std::vector<float> read(const Tensor& tensor) const { return host_->read<float>(tensor); }
  double error(const Tensor& got, const Tensor& want) const {
    const std::vector<float> a = read(got), b = read(want);
    return relative_error(Values(a.begin(), a.end()), Values(b.begin(), b.end()));
  }

  std::unique_ptr<HostValues> host_;
  std::uint64_t seed_ = 0;
};

// More than one launch has room for, ragged and strange sizes, and two that are too large to be kept.
TEST_F(KeptGradients, AreTheirProducts) {
  std::vector<Asked> all;
  for (const Sizes& n : {Sizes{1024, 128, 384}, Sizes{1000, 100, 52}, Sizes{65, 33, 7}, Sizes{2100, 40, 36},
                         Sizes{1, 3, 5}, Sizes{300, 600, 400}, Sizes{2048, 64, 96}, Sizes{77, 32, 32},
                         Sizes{512, 4, 130}, Sizes{33, 31, 29}, Sizes{128, 64, 64}, Sizes{256, 96, 8}})
    all.push_back(ask(n));
  for (const Asked& asked : all) find_beside(asked, {asked.dweight, false});
  cuda_->join_side_stream();
  std::vector<std::vector<float>> once;
  for (const Asked& asked : all) {
    EXPECT_LT(error(asked.dweight, asked.wanted), tolerance) << asked.wanted.shape.text();
    once.push_back(read(asked.dweight));
  }
  for (const Asked& asked : all) find_beside(asked, {asked.dweight, false});
  cuda_->join_side_stream();
  for (std::size_t i = 0; i < all.size(); ++i) EXPECT_EQ(read(all[i].dweight), once[i]);
}

TEST_F(KeptGradients, OfOneWeightAddUpInOrder) {
  const Asked first = ask({200, 48, 40}), second = ask({300, 48, 40}), large = ask({2500, 48, 40});
  find_beside(first, {first.dweight, false});
  find_beside(second, {first.dweight, true});
  find_beside(large, {first.dweight, true});
  find_beside(second, {first.dweight, true});
  cuda_->join_side_stream();
  for (const Asked* added : {&second, &large, &second}) cuda_->accumulate(added->wanted, {first.wanted, true});
  EXPECT_LT(error(first.dweight, first.wanted), tolerance);
}

TEST_F(KeptGradients, OfATableComeBeforeThatOfItsTokens) {
  const Asked head = ask({60, 50, 32});
  const Tensor dy = random(3, 32), tokens = host_->i32({3}, {7, 0, 7});
  find_beside(head, {head.dweight, false});
  {
    const SideStream beside(*cuda_);
    cuda_->embedding_backward(tokens, dy, {head.dweight, true});
  }
  cuda_->join_side_stream();
  cuda_->embedding_backward(tokens, dy, {head.wanted, true});
  EXPECT_LT(error(head.dweight, head.wanted), tolerance);
}

TEST_F(KeptGradients, StayExactWhenThePrecisionChanges) {
  const Asked asked = ask({500, 64, 64});
  find_beside(asked, {asked.dweight, false});
  EXPECT_TRUE(cuda_->set_precision(Precision::tf32));
  cuda_->join_side_stream();
  cuda_->set_precision(Precision::fp32);
  EXPECT_LT(error(asked.dweight, asked.wanted), tolerance);
}

TEST_F(KeptGradients, AreRecorded) {
  const Asked asked = ask({500, 64, 64});
  const std::unique_ptr<DeviceGraph> graph = cuda_->capture([&] { find_beside(asked, {asked.dweight, false}); });
  cuda_->copy(asked.x, random(500, 64));
  cuda_->gemm(true, false, 1.0, asked.dresult, asked.x, 0.0, asked.wanted);
  graph->run();
  EXPECT_LT(error(asked.dweight, asked.wanted), tolerance);
}

}  // namespace
}  // namespace afterglow::testing
