// The state of an objective's memory of training: it grows by a row each step, is decomposed at once, so that an
// analysis and the next step read the same modes, and is saved with the weights.
#pragma once
#include <span>

#include "core/engine/training/objective.h"
#include "core/layers/spectral_memory.h"

namespace afterglow {

class TrainingMemoryState {
 public:
  /// Null: a model without memory; all calls then do nothing. `memory` must outlive this object.
  explicit TrainingMemoryState(SpectralMemory* memory) : memory_(memory) {}

  /// The summary [d] of a step that has ended.
  void keep(Backend& backend, DType dtype, std::span<const double> summary);
  /// Whether the memory's tokens have become usable or unusable since the last call, so that the step changes its form.
  bool take_change();
  TrainingMemory state() const;
  /// "memory.tau" and so on; empty without memory.
  std::vector<Setting> settings() const;
  /// False if the memory has no such key.
  bool set(std::string_view key, double value);
  /// `memory` belongs to the state after `step`. Throws Error(bad_input) if its rows do not fit model and step.
  void restore(Backend& backend, DType dtype, const TrainingMemory& memory, std::int64_t step);

 private:
  SpectralMemory* memory_;
  bool has_changed_ = false;
};

}  // namespace afterglow
