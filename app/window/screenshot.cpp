// From the back buffer to a PNG file.
#include "app/window/screenshot.h"

#include <stb_image_write.h>

#include <cstring>
#include <exception>
#include <string_view>
#include <vector>

#include "app/window/gl_function.h"
#include "core/io/atomic_file.h"

namespace afterglow {

std::string save_screenshot(const std::string& path, int width, int height) {
  if (width <= 0 || height <= 0) return "the window has no size";
  const std::size_t stride = static_cast<std::size_t>(width) * 3;
  std::vector<unsigned char> rows(stride * static_cast<std::size_t>(height)), picture(rows.size());
  gl_function<decltype(glPixelStorei)>("glPixelStorei")(GL_PACK_ALIGNMENT, 1);
  gl_function<decltype(glReadPixels)>("glReadPixels")(0, 0, width, height, GL_RGB, GL_UNSIGNED_BYTE, rows.data());
  // OpenGL counts rows from below.
  for (int y = 0; y < height; ++y) {
    std::memcpy(picture.data() + static_cast<std::size_t>(height - 1 - y) * stride,
                rows.data() + static_cast<std::size_t>(y) * stride, stride);
  }
  std::string png;
  const auto append = [](void* context, void* data, int size) {
    static_cast<std::string*>(context)->append(static_cast<const char*>(data), static_cast<std::size_t>(size));
  };
  if (!stbi_write_png_to_func(append, &png, width, height, 3, picture.data(), static_cast<int>(stride)))
    return "the picture could not be packed";
  try {
    write_file_atomically(path, std::string_view(png));
  } catch (const std::exception& problem) {
    return problem.what();
  }
  return "";
}

}  // namespace afterglow
