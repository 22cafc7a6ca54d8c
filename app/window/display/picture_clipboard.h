// A picture on the clipboard. GLFW offers text only, and who owns a picture has to answer for it as long as it may be
// pasted; a helper of the desktop does that, also after the window is closed.
#pragma once
#include <string_view>

namespace afterglow {

/// Hands a PNG to wl-copy or xclip, whichever the display needs. Throws Error(failure) that says what to install.
void copy_picture(std::string_view png);

}  // namespace afterglow
