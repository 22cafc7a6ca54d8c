// Where run, page and lesson are, as JSON: for programs that drive the window and want to know what came of it.
#pragma once
#include <string>

#include "views/page_state.h"

namespace afterglow {

/// `is_settled`: the observation shows what all commands did.
std::string status_of(const PageState& page, const Observation& now, bool is_settled);

}  // namespace afterglow
