// The weights and settings of a trainer's model at one step, in a model of their own, so that they can be measured
// piece by piece while training goes on.
#pragma once
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <span>

#include "core/engine/training/trainer.h"
#include "core/models/model.h"

namespace afterglow {

class ModelCopy {
 public:
  /// `model` is the recipe's; the trainer must outlive the copy.
  ModelCopy(const nlohmann::json& model, Trainer& trainer);
  /// On another back end, which must outlive the copy, or in another precision.
  ModelCopy(const nlohmann::json& model, Trainer& trainer, Backend& backend, DType dtype);

  /// Takes the weights, memories and settings of now.
  void take();
  /// The same without the weights, for which others are put.
  void follow();
  /// Takes other weights, as they lie in the flat buffer, in the place of the trainer's. `meanwhile`, where given, is
  /// called behind each parameter.
  void put(std::span<const double> weights, const std::function<void()>& meanwhile = {});
  /// Step of the weights; -1 before the first `take`.
  std::int64_t step() const { return step_; }
  Model& model() { return *model_; }
  const Model& model() const { return *model_; }
  ParameterStore& parameters() { return store_; }
  Trainer& trainer() const { return *trainer_; }

 private:
  void take_weights();

  Trainer* trainer_;
  ParameterStore store_;
  std::unique_ptr<Model> model_;
  std::int64_t step_ = -1;
};

}  // namespace afterglow
