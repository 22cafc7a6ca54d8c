// Writes the back buffer to a PNG file.
#include "app/window/display/screenshot.h"

#include <stb_image_write.h>

#include <algorithm>
#include <exception>
#include <string_view>

#include "app/window/display/gl_function.h"
#include "core/io/atomic_file.h"
#include "core/io/error.h"

namespace afterglow {

void finish_drawing() { gl_function<decltype(glFinish)>("glFinish")(); }

Pixels read_back_buffer(int width, int height, int max_width, int max_height) {
  const auto stride = static_cast<std::size_t>(width) * 3;
  std::vector<unsigned char> rows(stride * static_cast<std::size_t>(height));
  gl_function<decltype(glPixelStorei)>("glPixelStorei")(GL_PACK_ALIGNMENT, 1);
  gl_function<decltype(glReadPixels)>("glReadPixels")(0, 0, width, height, GL_RGB, GL_UNSIGNED_BYTE, rows.data());
  // Mean of the square that becomes a pixel.
  const int side = std::max({1, (width + max_width - 1) / max_width, (height + max_height - 1) / max_height});
  Pixels pixels{width / side, height / side, {}};
  const auto across = static_cast<std::size_t>(pixels.width) * 3;
  pixels.rgb.resize(across * static_cast<std::size_t>(pixels.height));
  std::vector<unsigned> sums(stride);
  for (int y = 0; y < pixels.height; ++y) {
    std::ranges::fill(sums, 0u);
    for (int part = 0; part < side; ++part) {
      // OpenGL counts rows from below.
      const unsigned char* row = &rows[static_cast<std::size_t>(height - 1 - (y * side + part)) * stride];
      for (std::size_t i = 0; i < stride; ++i) sums[i] += row[i];
    }
    unsigned char* out = &pixels.rgb[static_cast<std::size_t>(y) * across];
    const unsigned* in = sums.data();
    for (int x = 0; x < pixels.width; ++x, out += 3) {
      unsigned r = 0, g = 0, b = 0;
      for (int part = 0; part < side; ++part, in += 3) r += in[0], g += in[1], b += in[2];
      const auto area = static_cast<unsigned>(side * side);
      out[0] = static_cast<unsigned char>(r / area);
      out[1] = static_cast<unsigned char>(g / area);
      out[2] = static_cast<unsigned char>(b / area);
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
    throw Error(ExitCode::failure, "the picture could not be compressed");
  return png;
}

std::string save_screenshot(const std::string& path, int width, int height) {
  if (width <= 0 || height <= 0) return "the window has no size";
  try {
    write_file_atomically(path, std::string_view(png_of(read_back_buffer(width, height, width, height))));
  } catch (const std::exception& problem) {
    return problem.what();
  }
  return "";
}

}  // namespace afterglow
