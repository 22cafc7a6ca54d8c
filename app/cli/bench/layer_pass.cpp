// A layer with its own weights, input and memory.
#include "app/cli/bench/layer_pass.h"

#include <chrono>
#include <nlohmann/json.hpp>

namespace afterglow {

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
  for (int i = 0; i < 2; ++i) run();
  return arena_.backend().capture([this] { run(); });
}

double LayerPass::weights() const {
  double sum = 0;
  for (const Parameter& parameter : store_.all()) {
    if (parameter.shape.rank() == 2) sum += static_cast<double>(parameter.shape.elements());
  }
  return sum;
}

}  // namespace afterglow
