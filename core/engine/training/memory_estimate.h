// What a training will hold in its device's memory, known before any of it is reserved.
#pragma once
#include <cstddef>

#include "core/autograd/parameter.h"
#include "core/engine/recipe/recipe.h"

namespace afterglow {

/// The most that training steps of the recipe hold in the memory of `device`, beside what that holds already: weights,
/// gradients, moments, examples, and the arena while it finds its size. Three steps on a device that only counts.
std::size_t training_bytes(const Recipe& recipe, Backend& device);

/// Throws Error(out_of_memory) with both numbers where the training does not fit. `store` has its declared parameters,
/// `tokens` are those of a batch; what is surely small is not looked at.
void require_training_memory(const Recipe& recipe, const ParameterStore& store, std::int64_t tokens, Backend& device);

}  // namespace afterglow
