// What an objective does with a memory of training: it grows by a row a step, is decomposed at once, so that an
// analysis finds it as the next step will, and travels with the weights.
#pragma once
#include <span>

#include "core/engine/training/objective.h"
#include "core/layers/spectral_memory.h"

namespace afterglow {

class TrainingMemoryState {
 public:
  /// Null: a model without memory, and nothing happens. `memory` must outlive the keeper.
  explicit TrainingMemoryState(SpectralMemory* memory) : memory_(memory) {}

  /// The summary [d] of a step that has ended.
  void keep(Backend& backend, DType dtype, std::span<const double> summary);
  /// Whether the tokens have become usable or unusable since it was asked last, so that the step has another form.
  bool take_change();
  TrainingMemory state() const;
  /// "memory.tau" and so on; none without memory.
  std::vector<Setting> settings() const;
  /// False where the key is another's.
  bool set(std::string_view key, double value);
  /// Of the state after `step`. Throws Error(bad_input) where the rows do not fit model and step.
  void restore(Backend& backend, DType dtype, const TrainingMemory& memory, std::int64_t step);

 private:
  SpectralMemory* memory_;
  bool has_changed_ = false;
};

}  // namespace afterglow
