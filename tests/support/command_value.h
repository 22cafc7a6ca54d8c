// The value of a command as JSON, whichever form it has.
#pragma once
#include <nlohmann/json.hpp>

#include "core/recipe/command.h"

namespace afterglow {

inline nlohmann::json value_of(const Command& command) {
  const auto named = [](const ModeName& name) {
    return nlohmann::json{{"layer", name.layer}, {"head", name.head}, {name.is_number ? "number" : "mode", name.mode}};
  };
  nlohmann::json value = nlohmann::json::parse(command.value);
  if (const auto* set = std::get_if<SetNumber>(&command.typed)) value = {{"key", set->key}, {"to", set->to}};
  if (const auto* change = std::get_if<SwitchMode>(&command.typed)) {
    value = named(change->name);
    value["off"] = change->off;
  }
  if (const auto* move = std::get_if<MoveMode>(&command.typed)) {
    value = named(move->name);
    value["re"] = move->to.real();
    value["im"] = move->to.imag();
  }
  if (is_live(command)) value["live"] = true;
  return value;
}

}  // namespace afterglow
