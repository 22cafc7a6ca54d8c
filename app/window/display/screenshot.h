// A picture of what the window shows.
#pragma once
#include <string>
#include <vector>

namespace afterglow {

struct Pixels {
  int width = 0, height = 0;
  std::vector<unsigned char> rgb;  ///< [height*width*3], the top row first
};

/// Waits until everything is drawn, so that the time of what follows is its own.
void finish_drawing();
/// Reads the back buffer of the current OpenGL context; where it is wider or higher than asked for, each pixel is the
/// mean of a square.
Pixels read_back_buffer(int width, int height, int max_width, int max_height);
/// As a PNG file; throws Error(failure) where it cannot be packed.
std::string png_of(const Pixels& pixels);

/// Writes the back buffer as PNG. Returns why it could not, or an empty text.
std::string save_screenshot(const std::string& path, int width, int height);

}  // namespace afterglow
