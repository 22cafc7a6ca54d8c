// A picture of the window.
#pragma once
#include <string>
#include <vector>

namespace afterglow {

struct Pixels {
  int width = 0, height = 0;
  std::vector<unsigned char> rgb;  ///< [height*width*3], the top row first
};

/// Waits until all drawing is done, so that a later measurement counts only its own time.
void finish_drawing();
/// Reads the back buffer of the current OpenGL context; if it is larger than the wanted size, each pixel is the mean of
/// a square.
Pixels read_back_buffer(int width, int height, int max_width, int max_height);
/// As a PNG file; throws Error(failure) if it cannot be compressed.
std::string png_of(const Pixels& pixels);

/// Writes the back buffer as PNG. Returns the reason of a failure, or an empty text.
std::string save_screenshot(const std::string& path, int width, int height);

}  // namespace afterglow
