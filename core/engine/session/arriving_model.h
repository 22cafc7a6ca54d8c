// Shows the parts of another library's model while its weights are being read.
#pragma once
#include <vector>

#include "core/engine/observation/observation.h"
#include "core/engine/training/objective.h"

namespace afterglow {

class ArrivingModel {
 public:
  explicit ArrivingModel(const Recipe& recipe);
  /// Records that a parameter is loaded. True if one more part is complete.
  bool note(const Parameter& parameter);
  /// The parts before the first one without weights. The name stays empty until all weights are loaded.
  ModelSummary summary() const;

 private:
  std::vector<ModelPart> parts_;
  std::vector<bool> is_there_;
  std::size_t shown_ = 0;
};

}  // namespace afterglow
