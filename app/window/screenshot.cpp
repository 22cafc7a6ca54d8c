// From the back buffer to a PNG file.
#include "app/window/screenshot.h"

#include <stb_image_write.h>

#include <algorithm>
#include <exception>
#include <string_view>

#include "app/window/gl_function.h"
#include "core/io/atomic_file.h"
#include "core/io/error.h"

namespace afterglow {

Pixels read_back_buffer(int width, int height, int max_width) {
  const auto stride = static_cast<std::size_t>(width) * 3;
  std::vector<unsigned char> rows(stride * static_cast<std::size_t>(height));
  gl_function<decltype(glPixelStorei)>("glPixelStorei")(GL_PACK_ALIGNMENT, 1);
  gl_function<decltype(glReadPixels)>("glReadPixels")(0, 0, width, height, GL_RGB, GL_UNSIGNED_BYTE, rows.data());
  const int side = (width + max_width - 1) / max_width;  // of the square that becomes a pixel
  Pixels pixels{width / side, height / side, {}};
  pixels.rgb.reserve(static_cast<std::size_t>(pixels.width) * static_cast<std::size_t>(pixels.height) * 3);
  for (int y = 0; y < pixels.height; ++y) {
    for (int x = 0; x < pixels.width * 3; ++x) {
      int sum = 0;
      for (int part = 0; part < side * side; ++part) {
        // OpenGL counts rows from below.
        const int row = height - 1 - (y * side + part / side), column = (x / 3 * side + part % side) * 3 + x % 3;
        sum += rows[static_cast<std::size_t>(row) * stride + static_cast<std::size_t>(column)];
      }
      pixels.rgb.push_back(static_cast<unsigned char>(sum / (side * side)));
    }
  }
  return pixels;
}

std::string png_of(const Pixels& pixels) {
  std::string png;
  const auto append = [](void* context, void* data, int size) {
    static_cast<std::string*>(context)->append(static_cast<const char*>(data), static_cast<std::size_t>(size));
  };
  if (!stbi_write_png_to_func(append, &png, pixels.width, pixels.height, 3, pixels.rgb.data(), pixels.width * 3))
    throw Error(ExitCode::failure, "the picture could not be packed");
  return png;
}

std::string save_screenshot(const std::string& path, int width, int height) {
  if (width <= 0 || height <= 0) return "the window has no size";
  try {
    write_file_atomically(path, std::string_view(png_of(read_back_buffer(width, height, width))));
  } catch (const std::exception& problem) {
    return problem.what();
  }
  return "";
}

}  // namespace afterglow
