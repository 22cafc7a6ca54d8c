// Takes the list of parts from the recipe, before any weights are read.
#include "core/engine/session/arriving_model.h"

#include <algorithm>

namespace afterglow {

ArrivingModel::ArrivingModel(const Recipe& recipe) {
  ParameterStore declared;
  parts_ = make_objective(recipe, declared)->parts(declared);
  is_there_.assign(parts_.size(), false);
}

bool ArrivingModel::note(const Parameter& parameter) {
  const auto next = std::ranges::upper_bound(parts_, parameter.offset, {}, &ModelPart::offset);
  is_there_[static_cast<std::size_t>(std::max<std::ptrdiff_t>(0, next - parts_.begin() - 1))] = true;
  const std::size_t before = shown_;
  while (shown_ < is_there_.size() && is_there_[shown_]) ++shown_;
  return shown_ > before;
}

ModelSummary ArrivingModel::summary() const {
  ModelSummary model;
  for (std::size_t i = 0; i < shown_; ++i) {
    const ModelPart& part = parts_[i];
    model.layers.push_back({part.label, part.scope, part.kind, part.detail, part.parameters, part.heads, 0});
    model.parameters += part.parameters;
  }
  return model;
}

}  // namespace afterglow
