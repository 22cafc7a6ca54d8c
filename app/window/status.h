// The state of run, page and lesson as JSON, for programs that control the window and read the result.
#pragma once
#include <string>

#include "views/page_state.h"

namespace afterglow {

/// `is_settled`: the observation shows the effects of all commands.
std::string status_of(const PageState& page, const Observation& now, bool is_settled);

}  // namespace afterglow
