// The receiver of a key: the topmost list, the text field, or its command.
#pragma once
#include "app/window/keys.h"
#include "views/frame/frame.h"
#include "views/frame/page_state.h"

namespace afterglow {

/// `is_typing`: a text field has the keyboard focus.
void route_key(PageState& page, CommandQueue& commands, const Chord& chord, bool is_typing);

}  // namespace afterglow
