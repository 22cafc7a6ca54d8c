// Commands of the window that change which numbers are seen, so that a lesson means the same with a window and without.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "core/engine/recipe/command.h"
#include "views/figures/selection.h"

namespace afterglow {

/// `select`: what the value names changes, the rest stays. Returns the commands that follow for the engine. Throws
/// Error(bad_input) for an unknown field or a value that it cannot have; then nothing has changed.
std::vector<Command> change_selection(Selection& selection, const nlohmann::json& value);

/// `race`: what its value says to the engine.
std::vector<Command> race_commands(const nlohmann::json& value);

}  // namespace afterglow
