// The benchmark of Gated KalmaNet's core.
#include "app/cli/bench/bench_gka.h"

#include <algorithm>
#include <cmath>

#include "core/random/random.h"

namespace afterglow {

GkaBench::GkaBench(const GkaCase& sizes, Backend& backend)
    : sizes_(sizes),
      backend_(&backend),
      q_(backend, {sizes.batch, sizes.tokens, sizes.heads, sizes.width}, DType::f32),
      k_(backend, q_.device().shape, DType::f32),
      v_(backend, q_.device().shape, DType::f32),
      g_(backend, {sizes.batch, sizes.tokens, sizes.heads}, DType::f32),
      alpha_(backend, g_.device().shape, DType::f32),
      dy_(backend, q_.device().shape, DType::f32),
      arena_(backend),
      tape_(backend, arena_) {
  fill(q_, 1, true);
  fill(k_, 2, true);
  fill(v_, 3, false);
  fill(dy_, 4, false);
  Random random(5);
  for (std::int64_t i = 0; i < rows(); ++i) {
    g_.host<float>()[i] = static_cast<float>(-0.1 * random.uniform());
    alpha_.host<float>()[i] = static_cast<float>(random.uniform());
  }
  for (PinnedArray* array : {&q_, &k_, &v_, &g_, &alpha_, &dy_}) array->queue_upload();
  config_.scale = 1.0 / std::sqrt(static_cast<double>(sizes.width));
  const auto work = [this] {
    tape_.begin(true);
    const ChebyshevVars in{tape_.input(q_.device()), tape_.input(k_.device()), tape_.input(v_.device()),
                           tape_.input(g_.device()), tape_.input(alpha_.device())};
    tape_.backward(chebyshev_readout(tape_, config_, in), dy_.device());
  };
  for (int i = 0; i < 2; ++i) work();
  graph_ = backend.capture(work);
}

void GkaBench::fill(PinnedArray& array, std::uint64_t seed, bool unit_rows) {
  constexpr std::int64_t max_drawn = 4099;  // period of the rows, a prime number, so that no two chunks are equal
  Random random(seed);
  float* const values = array.host<float>();
  const std::int64_t width = sizes_.width, drawn = std::min(rows(), max_drawn);
  for (std::int64_t row = 0; row < drawn; ++row) {
    float* const own = values + row * width;
    double squares = 0.0;
    for (std::int64_t i = 0; i < width; ++i) {
      own[i] = static_cast<float>(random.normal());
      squares += static_cast<double>(own[i]) * own[i];
    }
    for (std::int64_t i = 0; unit_rows && i < width; ++i) own[i] /= static_cast<float>(std::sqrt(squares));
  }
  for (std::int64_t row = drawn; row < rows(); ++row)
    std::copy_n(values + row % drawn * width, width, values + row * width);
}

void GkaBench::run_products() {
  tape_.begin(false);
  const std::int64_t columns = sizes_.width + 2 * config_.piece();
  const Tensor left = q_.device().reshaped({rows(), sizes_.width});
  const Tensor right = tape_.scratch({sizes_.width, columns}, DType::f32);
  const Tensor out = tape_.scratch({rows(), columns}, DType::f32);
  backend_->fill(right, 0.01);
  for (int i = 0; i < 2 * config_.iterations; ++i) backend_->gemm(false, false, 1, left, right, 0, out);
}

double GkaBench::flops() const {
  const double products = 2.0 * config_.iterations, per_token = 2.0 * static_cast<double>(sizes_.width) *
                                                                static_cast<double>(sizes_.width + 2 * config_.piece());
  return products * per_token * static_cast<double>(rows());
}

double GkaBench::bytes() const {
  const double panels = 4.0 * static_cast<double>(rows() * sizes_.width);
  const double states = 4.0 * static_cast<double>(sizes_.batch * sizes_.heads * config_.chunks(sizes_.tokens) *
                                                  sizes_.width * sizes_.width);
  return 13.0 * panels + 10.0 * states;
}

}  // namespace afterglow
