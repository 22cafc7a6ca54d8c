// Copies on the device, where nothing waits for the host, or through the host to another device or precision.
#include "core/engine/training/saved/model_copy.h"

#include <nlohmann/json.hpp>

#include "core/layers/spectral_memory.h"

namespace afterglow {

ModelCopy::ModelCopy(const nlohmann::json& model, Trainer& trainer)
    : ModelCopy(model, trainer, trainer.backend(), trainer.dtype()) {}

ModelCopy::ModelCopy(const nlohmann::json& model, Trainer& trainer, Backend& backend, DType dtype)
    : trainer_(&trainer), model_(std::make_unique<Model>(model, store_)) {
  store_.allocate_values(backend, dtype);
}

void ModelCopy::put(std::span<const double> weights) {
  for (const Parameter& parameter : store_.all()) {
    const auto begin = static_cast<std::size_t>(parameter.offset);
    store_.upload(parameter, weights.subspan(begin, static_cast<std::size_t>(parameter.shape.elements())));
  }
}

void ModelCopy::take_weights() {
  const ParameterStore& from = trainer_->parameters();
  const bool is_alike = &from.backend() == &store_.backend() && from.dtype() == store_.dtype();
  if (is_alike) return store_.backend().copy(store_.values(), from.values());
  put(from.download(from.values()));
}

void ModelCopy::take() {
  step_ = trainer_->finished_steps();
  take_weights();
  if (const SpectralMemory* memory = trainer_->model().memory()) {
    model_->memory()->assign(memory->history().values(), memory->history().appended());
    for (const LayerSetting& setting : memory->settings()) model_->memory()->set(setting.key, setting.value);
    model_->memory()->refresh(store_.backend(), store_.dtype());
  }
  for (std::size_t i = 0; i < model_->branches().size(); ++i) {
    for (const LayerSetting& setting : trainer_->model().branches()[i].layer->settings())
      model_->branches()[i].layer->set(setting.key, setting.value);
  }
}

}  // namespace afterglow
