// A picture of what the window shows.
#pragma once
#include <string>

namespace afterglow {

/// Reads the back buffer of the current OpenGL context and writes it as PNG. Returns why it could not, or an empty
/// text.
std::string save_screenshot(const std::string& path, int width, int height);

}  // namespace afterglow
