// What a training will hold in its device's memory, known before it is reserved.
#pragma once
#include <cstddef>

#include "core/autograd/parameter.h"
#include "core/engine/recipe/recipe.h"

namespace afterglow {

struct TrainingMemoryNeed {
  std::size_t reserved = 0;  ///< from the start: weights, gradients, moments, examples
  std::size_t peak = 0;      ///< the most at once, while the arena finds its size
};

/// What training steps of the recipe hold in the memory of `device`, beside what that holds already. Three steps on a
/// device that only counts.
TrainingMemoryNeed training_memory_need(const Recipe& recipe, Backend& device);

/// Such a training holds far less than a gigabyte; counting takes about as long as its first steps. `store` has its
/// declared parameters, `tokens` are those of a batch.
bool is_surely_small(const ParameterStore& store, std::int64_t tokens);

}  // namespace afterglow
