// What a figure may reveal of where it was made.
#include "core/engine/recipe/recipe_text.h"

#include <filesystem>
#include <span>

#include "core/io/checksum.h"
#include "core/io/number_text.h"

namespace afterglow {

std::string carried_text(const Recipe& recipe) {
  nlohmann::json carried = to_json(recipe);
  const auto leave_name = [](nlohmann::json& of) {
    if (of.contains("path") && of["path"].is_string())
      of["path"] = std::filesystem::path(of["path"].get<std::string>()).filename().string();
  };
  nlohmann::json& task = carried["task"];
  leave_name(task);
  if (task.is_object()) task.erase("labels");  // the model's folder has them
  if (carried.contains("checkpoint")) {
    leave_name(carried["checkpoint"]);
    nlohmann::json& config = carried["checkpoint"]["config"];
    if (config.is_object()) config.erase("_name_or_path");  // where the model was saved from
  }
  return carried.dump();
}

nlohmann::json without_words(nlohmann::json recipe) {
  if (!recipe.is_object()) return recipe;
  recipe["title"] = recipe["name"];
  recipe.erase("about");
  return recipe;
}

std::string siblings_key(const Recipe& recipe) {
  Recipe common = recipe;
  common.seed = 0;
  common.shown_step = -1;
  common.inspected = {};
  std::erase_if(common.commands,
                [](const TimedCommand& timed) { return timed.command.name != "set" && timed.command.name != "skip"; });
  const std::string text = without_words(to_json(common)).dump();
  return hex16(checksum(std::as_bytes(std::span(text))));
}

}  // namespace afterglow
