// Copies on the device; nothing waits for the host.
#include "core/engine/probing/model_copy.h"

#include <nlohmann/json.hpp>

#include "core/layers/spectral_memory.h"

namespace afterglow {

ModelCopy::ModelCopy(const nlohmann::json& model, Trainer& trainer)
    : trainer_(&trainer), model_(std::make_unique<Model>(model, store_)) {
  store_.allocate_values(trainer.backend(), trainer.dtype());
}

void ModelCopy::take() {
  step_ = trainer_->finished_steps();
  trainer_->backend().copy(store_.values(), trainer_->parameters().values());
  if (const SpectralMemory* memory = trainer_->model().memory()) {
    model_->memory()->assign(memory->history().values(), memory->history().appended());
    for (const LayerSetting& setting : memory->settings()) model_->memory()->set(setting.key, setting.value);
    model_->memory()->refresh(trainer_->backend(), trainer_->dtype());
  }
  for (std::size_t i = 0; i < model_->branches().size(); ++i) {
    for (const LayerSetting& setting : trainer_->model().branches()[i].layer->settings())
      model_->branches()[i].layer->set(setting.key, setting.value);
  }
}

}  // namespace afterglow
