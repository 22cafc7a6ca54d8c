// Recipes inside other files, which may reach other people and programs.
#pragma once
#include <cstdint>
#include <string>

#include "core/engine/recipe/recipe.h"

namespace afterglow {

/// Larger integers are not exact in JSON, so a recipe could not carry its seed.
constexpr std::int64_t largest_seed = std::int64_t{1} << 53;

/// The JSON text that a figure carries. Of a data file it holds the name and `hash`, by which a file of that name is
/// checked, but not the folder.
std::string carried_text(const Recipe& recipe);
/// The JSON of a recipe without its title and sentence, which change no number of a run; the title becomes the name, as
/// for a file without one.
nlohmann::json without_words(nlohmann::json recipe);
/// 16 hex digits of everything but the seed that shapes a training: recipe, changes of settings, batches left out.
std::string siblings_key(const Recipe& recipe);

}  // namespace afterglow
