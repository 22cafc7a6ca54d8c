// What a figure may tell of where it was made.
#include "core/engine/recipe/recipe_text.h"

#include <filesystem>

namespace afterglow {

std::string carried_text(const Recipe& recipe) {
  nlohmann::json carried = to_json(recipe);
  nlohmann::json& task = carried["task"];
  if (task.contains("path") && task["path"].is_string())
    task["path"] = std::filesystem::path(task["path"].get<std::string>()).filename().string();
  return carried.dump();
}

}  // namespace afterglow
