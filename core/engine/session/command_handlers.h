// The engine's commands by name: what each does with its value.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "core/engine/recipe/command.h"

namespace afterglow {

class SessionWorker;

/// `value` is the command's text as JSON; discarded (nlohmann) where it is none.
using CommandHandler = void (*)(SessionWorker& worker, const Command& command, const nlohmann::json& value);

/// Null where the engine has no command of this name.
CommandHandler find_handler(std::string_view name);

/// Whether `undo` takes such a command back: it changes the run's future or what the probe asks.
bool is_undoable(std::string_view name);

}  // namespace afterglow
