// Where run, page and lesson are, as JSON: for programs that drive the window and want to know what came of it.
#pragma once
#include <string>

#include "views/page_state.h"

namespace afterglow {

std::string status_of(const PageState& page, const Observation& now);

}  // namespace afterglow
