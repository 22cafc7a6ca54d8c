// Runs a helper program with the picture as its input.
#include "app/window/display/picture_clipboard.h"

#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "core/io/child_process.h"
#include "core/io/error.h"

namespace afterglow {
namespace {

struct Helper {
  const char* display;  ///< environment variable that is set where the helper works
  std::vector<std::string> words;
};
/// Whether the helper took all of `input`. It returns at once and continues in the background, or stores the picture
/// itself.
bool took(const Helper& helper, int input) {
  constexpr std::chrono::seconds patience{2};
  const pid_t child = start_program(helper.words, {{input, STDIN_FILENO}});
  return child >= 0 && ends_well(child, patience).value_or(true);
}

bool is_set(const char* variable) {
  const char* value = std::getenv(variable);
  return value && *value;
}

}  // namespace

void copy_picture(std::string_view png) {
  const std::array helpers{Helper{"WAYLAND_DISPLAY", {"wl-copy", "--type", "image/png"}},
                           Helper{"DISPLAY", {"xclip", "-selection", "clipboard", "-target", "image/png"}}};
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::tmpfile(), std::fclose);
  if (!file || std::fwrite(png.data(), 1, png.size(), file.get()) != png.size() || std::fflush(file.get()) != 0)
    throw Error(ExitCode::failure, "the picture was not copied: the folder for temporary files is full or missing");
  for (const Helper& helper : helpers) {
    if (!is_set(helper.display)) continue;
    std::rewind(file.get());
    if (took(helper, fileno(file.get()))) return;
  }
  throw Error(ExitCode::failure,
              "the picture was not copied: this needs xclip, or wl-clipboard on Wayland; install it, or press Ctrl E "
              "to write a file");
}

}  // namespace afterglow
