// Estimates the device memory of a training before it is reserved.
#pragma once
#include <cstddef>

#include "core/autograd/parameter.h"
#include "core/engine/recipe/recipe.h"

namespace afterglow {

struct TrainingMemoryNeed {
  std::size_t reserved = 0;  ///< from the start: weights, gradients, moments, examples
  std::size_t peak = 0;      ///< maximum, while the arena finds its size
};

/// Memory that training steps of the recipe need on `device` in addition to what is in use. Runs three steps on a
/// device that only counts.
TrainingMemoryNeed training_memory_need(const Recipe& recipe, Backend& device);

/// Whether the training certainly needs far less than a gigabyte, so that counting (as slow as its first steps) can be
/// skipped. `store` has declared parameters; `tokens` are those of a batch.
bool is_surely_small(const ParameterStore& store, std::int64_t tokens);

}  // namespace afterglow
