// Makes a recipe from a checkpoint folder.
#include "core/engine/training/saved/checkpoint_recipe.h"

#include <algorithm>

#include "core/io/terminal_text.h"

namespace afterglow {

namespace {

/// Turns a folder's name into a valid file name.
std::string file_name_of(std::string folder) {
  constexpr std::size_t longest = 60;
  if (!is_utf8(folder)) folder.clear();
  std::ranges::replace_if(
      folder, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == '/' || c == 0x7F; }, '_');
  folder.erase(0, folder.find_first_not_of('.'));
  if (folder.size() > longest) {
    folder.resize(longest);
    while (!is_utf8(folder)) folder.pop_back();
  }
  return folder.empty() ? "model" : folder;
}

}  // namespace

Recipe checkpoint_recipe(const Checkpoint& checkpoint, const std::string& name) {
  Recipe recipe;
  recipe.name = file_name_of(name.empty() ? checkpoint.folder_name() : name);
  recipe.checkpoint = checkpoint.origin();
  const std::string type = recipe.checkpoint["config"].value("model_type", checkpoint.library());
  recipe.title = checkpoint.library() + (type == checkpoint.library() ? "" : " " + type) + " · " + recipe.name;
  recipe.about = "A model that " + checkpoint.library() + " saved, with its weights.";
  recipe.model = checkpoint.model();
  recipe.task = checkpoint.task().is_null()
                    ? nlohmann::json{{"kind", "ids"}, {"vocab", recipe.model["vocab"]}, {"length", 64}}
                    : checkpoint.task();
  if (const std::filesystem::path labels = checkpoint.tokenizer();
      checkpoint.task().is_null() && !labels.empty() && is_utf8(labels.string()))
    recipe.task["labels"] = labels.string();
  recipe.shown_step = 0;
  // Small values, because the weights are already trained.
  recipe.training.batch = 4;
  recipe.training.learning_rate = 1e-4;
  recipe.training.warmup = 10;
  recipe.training.evaluate_examples = 16;
  return recipe;
}

}  // namespace afterglow
