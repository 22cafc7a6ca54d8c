// Where a key goes: to the list that lies on top, to the text field, or to its command.
#pragma once
#include "app/window/keys.h"
#include "views/command_queue.h"
#include "views/page_state.h"

namespace afterglow {

/// `is_typing`: a text field has the keyboard.
void route_key(PageState& page, CommandQueue& commands, const Chord& chord, bool is_typing);

}  // namespace afterglow
