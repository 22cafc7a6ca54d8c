// The recipe of a model that another library saved: it starts from the folder's weights.
#pragma once
#include "core/engine/recipe/recipe.h"
#include "core/models/checkpoints/checkpoint.h"

namespace afterglow {

/// Named after the folder. Its task is the model's own tokens, with the tokenizer's labels where the folder has them;
/// drawn sequences until --data gives others.
Recipe checkpoint_recipe(const Checkpoint& checkpoint);

}  // namespace afterglow
