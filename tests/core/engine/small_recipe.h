// A recipe small enough to train in milliseconds.
#pragma once
#include <nlohmann/json.hpp>

#include "core/recipe/recipe.h"

namespace afterglow {

inline nlohmann::json small_recipe_json() {
  return nlohmann::json::parse(R"({
    "name": "small", "seed": 3,
    "model": {"d_model": 16, "vocab": 128, "blocks": [
      {"mixer": {"kind": "mamba2", "d_state": 4, "expand": 2, "headdim": 8}, "mlp": {"kind": "swiglu", "d_ff": 24}},
      {"mixer": {"kind": "ska", "H": 2, "r": 6, "P": 8, "K": 2, "mode": "prefix"}, "mlp": {"kind": "koopman_mlp", "dk": 16}}]},
    "task": {"kind": "sysprompt", "bindings": 2, "length": 24},
    "training": {"steps": 40, "batch": 4, "learning_rate": 0.003, "warmup": 5, "evaluate_every": 10, "evaluate_examples": 8}})");
}

/// The same, whose influence is measured in a fraction of a second.
inline nlohmann::json quickly_measured_recipe_json() {
  nlohmann::json recipe = small_recipe_json();
  recipe["commands"] = nlohmann::json::parse(R"([{"step": 0, "name": "influence",
    "value": {"tokens": 24, "race": {"tokens": 24, "kinds": ["mamba2"]}}}])");
  return recipe;
}

inline Recipe small_recipe() { return parse_recipe(small_recipe_json(), "small"); }

}  // namespace afterglow
