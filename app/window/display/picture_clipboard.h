// A picture on the clipboard. GLFW offers text only, and the owner of a picture must answer requests for it as long as
// it may be pasted; a helper of the desktop does that, also after the window has closed.
#pragma once
#include <string_view>

namespace afterglow {

/// Passes a PNG to wl-copy or xclip, depending on the display. Throws Error(failure) that says what to install.
void copy_picture(std::string_view png);

}  // namespace afterglow
