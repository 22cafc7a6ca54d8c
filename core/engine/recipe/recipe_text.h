// Recipes inside other files, which travel to other people and programs.
#pragma once
#include <cstdint>
#include <string>

#include "core/engine/recipe/recipe.h"

namespace afterglow {

/// Beyond it the numbers of JSON are no longer exact, and a recipe could not carry its seed.
constexpr std::int64_t largest_seed = std::int64_t{1} << 53;

/// The JSON text that a figure carries: of a task's file its name, not the folder where it lay; its `hash` tells
/// whether a file of that name is the same.
std::string carried_text(const Recipe& recipe);
/// The JSON of a recipe without its title and its sentence, which change no number of a run: its title is its name, as
/// where a file gives none.
nlohmann::json without_words(nlohmann::json recipe);
/// 16 hex digits of all that shapes a training but its seed: recipe, changes of settings, batches left out.
std::string siblings_key(const Recipe& recipe);

}  // namespace afterglow
