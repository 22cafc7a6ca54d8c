// Commands of the window that change which numbers are shown, so that a lesson means the same with and without a
// window.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "core/engine/recipe/command.h"
#include "views/figures/selection.h"

namespace afterglow {

/// `select`: changes the named fields of the selection. Returns the resulting commands for the engine. Throws
/// Error(bad_input) for an unknown field or an invalid value, and then changes nothing.
std::vector<Command> change_selection(Selection& selection, const nlohmann::json& value);

}  // namespace afterglow
