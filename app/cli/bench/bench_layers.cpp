// Fills inputs with fixed numbers and records passes as graphs.
#include "app/cli/bench/bench_layers.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/random/random.h"

namespace afterglow {

namespace {

/// As a graph, with all memory reserved before.
std::unique_ptr<DeviceGraph> recorded_work(Backend& backend, const std::function<void()>& work) {
  for (int i = 0; i < 2; ++i) work();
  return backend.capture(work);
}

void fill_with(PinnedArray& array, double size, std::uint64_t seed) {
  constexpr std::int64_t drawn = 99991;  // period of the rows, a prime number, so that no two rows are equal
  Random random(seed);
  float* const values = array.host<float>();
  const std::int64_t count = array.device().elements();
  for (std::int64_t i = 0; i < count; ++i)
    values[i] = i < drawn ? static_cast<float>(size * random.normal()) : values[i - drawn];
  array.queue_upload();
}

}  // namespace

double seconds_of(const std::function<void()>& work, Backend& backend) {
  const auto start = std::chrono::steady_clock::now();
  work();
  backend.synchronize();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

LayerPass::LayerPass(const LayerKind& kind, const nlohmann::json& config, std::int64_t batch, std::int64_t tokens,
                     Backend& backend)
    : layer_(kind.make(config, ParameterScope(store_, "layer"))),
      x_(backend, {batch, tokens, config[kind.width_field].get<std::int64_t>()}, DType::f32),
      dy_(backend, x_.device().shape, DType::f32),
      arena_(backend),
      tape_(backend, arena_) {
  store_.allocate(backend, DType::f32);
  store_.initialise(7);
  for (std::int64_t i = 0; i < x_.device().elements(); ++i) {
    x_.host<float>()[i] = static_cast<float>(static_cast<double>(i * 2654435761u % 2001) / 1000.0 - 1.0);
    dy_.host<float>()[i] = static_cast<float>(static_cast<double>(i * 40503u % 2001) / 1000.0 - 1.0);
  }
  x_.queue_upload();
  dy_.queue_upload();
}

void LayerPass::run() {
  tape_.begin(true);
  tape_.backward(layer_->forward(tape_, tape_.input(x_.device()), {}), dy_.device());
}

std::unique_ptr<DeviceGraph> LayerPass::recorded() {
  return recorded_work(arena_.backend(), [this] { run(); });
}

double LayerPass::weights() const {
  double sum = 0;
  for (const Parameter& parameter : store_.all()) {
    if (parameter.shape.rank() == 2) sum += static_cast<double>(parameter.shape.elements());
  }
  return sum;
}

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
  graph_ = recorded_work(backend, [this] {
    tape_.begin(true);
    const ChebyshevVars in{tape_.input(q_.device()), tape_.input(k_.device()), tape_.input(v_.device()),
                           tape_.input(g_.device()), tape_.input(alpha_.device())};
    tape_.backward(chebyshev_readout(tape_, config_, in), dy_.device());
  });
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

HeadBench::HeadBench(const HeadCase& sizes, Backend& backend)
    : sizes_(sizes),
      hidden_(backend, {sizes.batch, sizes.tokens, sizes.width}, DType::f32),
      weight_(backend, {sizes.vocabulary, sizes.width}, DType::f32),
      targets_(backend, {sizes.batch, sizes.tokens}, DType::i32),
      one_(backend, {1}, DType::f32),
      arena_(backend),
      tape_(backend, arena_) {
  fill_with(hidden_, 1, 1);
  fill_with(weight_, 0.02, 2);
  for (std::int64_t i = 0; i < targets_.device().elements(); ++i)
    targets_.host<std::int32_t>()[i] = static_cast<std::int32_t>(i * 7919 % sizes.vocabulary);
  one_.host<float>()[0] = 1;
  targets_.queue_upload();
  one_.queue_upload();
  graph_ = recorded_work(backend, [this] {
    tape_.begin(true);
    const Var hidden = tape_.input(hidden_.device()), weight = tape_.input(weight_.device());
    const CrossEntropy found = sizes_.in_chunks
                                   ? head_cross_entropy(tape_, hidden, weight, targets_.device())
                                   : cross_entropy(tape_, linear(tape_, hidden, weight), targets_.device());
    tape_.backward(found.loss, one_.device());
  });
}

double HeadBench::flops() const {
  return 6.0 * static_cast<double>(sizes_.batch * sizes_.tokens) * static_cast<double>(sizes_.width) *
         static_cast<double>(sizes_.vocabulary);
}

}  // namespace afterglow
