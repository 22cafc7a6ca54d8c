// A model that another library saved, part by part as its weights are read.
#pragma once
#include <memory>
#include <vector>

#include "core/engine/observation/observation.h"
#include "core/engine/training/objective.h"

namespace afterglow {

class ArrivingModel {
 public:
  explicit ArrivingModel(const Recipe& recipe);
  /// A parameter's weights are there. True where one more part is to be shown.
  bool note(const Parameter& parameter);
  /// The parts up to the first one of which nothing is there yet. It has no name before all of it is there.
  ModelSummary summary() const;

 private:
  std::vector<ModelPart> parts_;
  std::vector<bool> is_there_;
  std::size_t shown_ = 0;
};

}  // namespace afterglow
