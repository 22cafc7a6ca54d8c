// The recipe of another library's model: it starts from the folder's weights.
#pragma once
#include "core/engine/recipe/recipe.h"
#include "core/models/checkpoints/checkpoint.h"

namespace afterglow {

/// Named after the folder, or `name`. Its task is text in the model's tokens, labelled by the folder's tokenizer if
/// there is one; sequences are drawn at random until --data gives others.
Recipe checkpoint_recipe(const Checkpoint& checkpoint, const std::string& name = "");

}  // namespace afterglow
