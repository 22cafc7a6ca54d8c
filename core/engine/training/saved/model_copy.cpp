// Copies on the device without waiting, or through the host to another device or precision.
#include "core/engine/training/saved/model_copy.h"

#include <nlohmann/json.hpp>

namespace afterglow {

ModelCopy::ModelCopy(const nlohmann::json& model, Trainer& trainer)
    : ModelCopy(model, trainer, trainer.backend(), trainer.dtype()) {}

ModelCopy::ModelCopy(const nlohmann::json& model, Trainer& trainer, Backend& backend, DType dtype)
    : trainer_(&trainer) {
  if (trainer.is_only_read() && &backend == &trainer.backend() && dtype == trainer.dtype()) return;
  own_ = std::make_unique<Model>(model, store_);
  store_.allocate_values(backend, dtype);
}

void ModelCopy::put(std::span<const double> weights, const std::function<void()>& meanwhile) {
  for (const Parameter& parameter : store_.all()) {
    const auto begin = static_cast<std::size_t>(parameter.offset);
    store_.upload(parameter, weights.subspan(begin, static_cast<std::size_t>(parameter.shape.elements())));
    if (meanwhile) meanwhile();
  }
}

void ModelCopy::take_weights() {
  if (!own_) return;
  const ParameterStore& from = trainer_->parameters();
  const bool is_alike = &from.backend() == &store_.backend() && from.dtype() == store_.dtype();
  if (is_alike) return store_.backend().copy(store_.values(), from.values());
  put(from.download(from.values()));
}

void ModelCopy::take() {
  follow();
  take_weights();
}

void ModelCopy::follow() {
  step_ = trainer_->finished_steps();
  if (own_) own_->follow(trainer_->model(), store_.backend(), store_.dtype());
}

}  // namespace afterglow
