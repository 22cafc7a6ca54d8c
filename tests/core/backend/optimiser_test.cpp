// Gradient norms, AdamW against a plain reference over many steps, and the search for non-finite numbers.
#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "core/backend/backend.h"
#include "core/random/random.h"
#include "tests/support/host_values.h"
#include "tests/support/op_case.h"

namespace afterglow::testing {
namespace {

using ::testing::ElementsAre;

constexpr int blocks = 5;
constexpr int count = blocks * parameter_block;

struct Hyper {
  double rate = 3e-3, beta1 = 0.9, beta2 = 0.95, eps = 1e-8, decay = 0.1, clip = 1.0;
};

/// torch.optim.AdamW after torch.nn.utils.clip_grad_norm_, written as its documentation has it.
struct Reference {
  Values weight, first = Values(count, 0.0), second = Values(count, 0.0);
  int step = 0;

  void advance(const Hyper& h, Values gradient, const std::vector<std::uint8_t>& decays) {
    double squares = 0.0;
    for (const double g : gradient) squares += g * g;
    const double coefficient = h.clip > 0 ? std::min(1.0, h.clip / (std::sqrt(squares) + 1e-6)) : 1.0;
    ++step;
    for (int i = 0; i < count; ++i) {
      const double g = gradient[i] * coefficient;
      if (decays[i / parameter_block]) weight[i] -= h.rate * h.decay * weight[i];
      first[i] = h.beta1 * first[i] + (1 - h.beta1) * g;
      second[i] = h.beta2 * second[i] + (1 - h.beta2) * g * g;
      const double m = first[i] / (1 - std::pow(h.beta1, step)), v = second[i] / (1 - std::pow(h.beta2, step));
      weight[i] -= h.rate * m / (std::sqrt(v) + h.eps);
    }
  }
};

class Optimiser : public ::testing::Test {
 protected:
  Optimiser() {
    const Values zero(count, 0.0);
    tensors_.weights = host_.f64({count}, random_values(1.0));
    tensors_.gradients = host_.f64({count}, zero);
    tensors_.first_moment = host_.f64({count}, zero);
    tensors_.second_moment = host_.f64({count}, zero);
    tensors_.decay_mask = host_.tensor({blocks}, DType::u8, decays_);
    tensors_.hyperparameters = host_.f64({6}, Values(6, 0.0));
    tensors_.step = host_.i32({1}, {0});
    tensors_.gradient_norm = host_.f64({1}, {0});
    set({});
  }
  Values random_values(double size) {
    Values values(count);
    for (double& value : values) value = size * random_.normal();
    return values;
  }
  void set(const Hyper& h) {
    const Values values{h.rate, h.beta1, h.beta2, h.eps, h.decay, h.clip};
    backend_->upload(tensors_.hyperparameters, values.data());
  }
  void advance(const Values& gradient) {
    backend_->upload(tensors_.gradients, gradient.data());
    const Tensor offsets = host_.f64({3}, {0, 64, count}), norms = host_.f64({2}, {0, 0});
    backend_->gradient_norms(tensors_.gradients, offsets, norms, tensors_.gradient_norm);
    backend_->adamw(tensors_);
  }

  std::unique_ptr<Backend> backend_ = make_cpu_backend(2);
  HostValues host_{*backend_};
  Random random_{11};
  std::vector<std::uint8_t> decays_{1, 0, 1, 1, 0};
  AdamwTensors tensors_;
};

TEST_F(Optimiser, FollowsPyTorchOverManySteps) {
  Reference reference{host_.read<double>(tensors_.weights)};
  Hyper hyper;
  for (int step = 0; step < 200; ++step) {
    hyper.rate = 3e-3 * (1.0 + std::sin(0.1 * step));
    hyper.clip = step % 3 == 0 ? 0.0 : 1.0;
    set(hyper);
    const Values gradient = random_values(step % 2 == 0 ? 1.0 : 1e-3);  // above and below the clip norm
    reference.advance(hyper, gradient, decays_);
    advance(gradient);
  }
  EXPECT_LE(relative_error(host_.read<double>(tensors_.weights), reference.weight), 1e-12);
  EXPECT_LE(relative_error(host_.read<double>(tensors_.first_moment), reference.first), 1e-12);
  EXPECT_LE(relative_error(host_.read<double>(tensors_.second_moment), reference.second), 1e-12);
  EXPECT_THAT(host_.read<std::int32_t>(tensors_.step), ElementsAre(200));
}

TEST_F(Optimiser, TakesOneStepOfKnownSize) {
  // After one step m / sqrt(v) is the sign of the gradient, so every weight moves by the rate.
  Hyper hyper;
  hyper.decay = 0.0;
  hyper.clip = 0.0;
  hyper.eps = 0.0;
  set(hyper);
  const Values before = host_.read<double>(tensors_.weights), gradient = random_values(5.0);
  advance(gradient);
  const Values after = host_.read<double>(tensors_.weights);
  for (int i = 0; i < count; ++i) EXPECT_NEAR(after[i] - before[i], gradient[i] > 0 ? -hyper.rate : hyper.rate, 1e-12);
}

TEST_F(Optimiser, LeavesEverythingAloneWhenTheNormIsNotFinite) {
  advance(random_values(1.0));
  const auto state = [&] {
    return std::tuple(host_.read<double>(tensors_.weights), host_.read<double>(tensors_.first_moment),
                      host_.read<double>(tensors_.second_moment), host_.read<std::int32_t>(tensors_.step));
  };
  const auto before = state();
  for (const double bad : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    Values gradient = random_values(1.0);
    gradient[137] = bad;
    advance(gradient);
    EXPECT_EQ(state(), before);
  }
}

TEST(GradientNorms, MeasureSlicesAndTheWhole) {
  const std::unique_ptr<Backend> backend = make_cpu_backend(3);
  HostValues host(*backend);
  std::vector<float> gradient(1000, 0.0f);
  gradient[0] = 3, gradient[100] = 4, gradient[101] = 12, gradient[999] = -84;
  const Tensor norms = host.f32({3}, {0, 0, 0}), total = host.f32({1}, {0});
  backend->gradient_norms(host.f32({1000}, gradient), host.f64({4}, {0, 101, 101, 1000}), norms, total);
  EXPECT_THAT(host.read<float>(norms), ElementsAre(5, 0, std::sqrt(144.0f + 84 * 84)));
  EXPECT_FLOAT_EQ(host.read<float>(total)[0], std::sqrt(25.0f + 144 + 84 * 84));
}

TEST(GradientNorms, SumInFloat64) {
  const std::unique_ptr<Backend> backend = make_cpu_backend(2);
  HostValues host(*backend);
  const int n = 1 << 20;  // a float32 sum of equal squares would stop growing at 2^24 of them, and be off long before
  const Tensor norms = host.f32({1}, {0}), total = host.f32({1}, {0});
  backend->gradient_norms(host.f32({n}, std::vector<float>(n, 0.1f)), host.f64({2}, {0, n}), norms, total);
  EXPECT_NEAR(host.read<float>(total)[0], std::sqrt(double(n)) * double(0.1f), 1e-5);
}

TEST(FirstNonFinite, FindsTheFirstInRowOrder) {
  const std::unique_ptr<Backend> backend = make_cpu_backend(2);
  HostValues host(*backend);
  std::vector<float> values(37 * 65, 1e38f);
  const auto search = [&] { return backend->first_non_finite(host.f32({37, 65}, values)); };
  EXPECT_EQ(search(), -1);
  values[2000] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(search(), 2000);
  values[66] = -std::numeric_limits<float>::infinity();
  EXPECT_EQ(search(), 66);
  values[20 * 65 + 3] = std::numeric_limits<float>::infinity();
  EXPECT_EQ(backend->first_non_finite(host.f32({37, 65}, values).column_range(2, 3)), 20 * 3 + 1);
  EXPECT_EQ(backend->first_non_finite(host.i32({2}, {1, 2})), -1);
}

}  // namespace
}  // namespace afterglow::testing
