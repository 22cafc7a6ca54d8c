// The engine's commands by name, and the function that carries each out.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "core/engine/recipe/command.h"

namespace afterglow {

class SessionWorker;

/// `value` is the command's value, always an object; empty for a typed command.
using CommandHandler = void (*)(SessionWorker& worker, const Command& command, const nlohmann::json& value);

/// Null if the engine has no command of this name.
CommandHandler find_handler(std::string_view name);

}  // namespace afterglow
