// Checks a hyperparameter before it is changed.
#pragma once
#include <span>
#include <string_view>

#include "core/engine/observation/observation.h"

namespace afterglow {

/// Throws Error(bad_input) for a value outside its setting's range and for an unknown key.
void check_setting(std::span<const Setting> settings, std::string_view key, double value);

}  // namespace afterglow
