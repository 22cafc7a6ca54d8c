// Runs the helper with the picture as its input.
#include "app/window/picture_clipboard.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>

#include "core/io/error.h"

extern char** environ;

namespace afterglow {

namespace {

struct Helper {
  const char* display;  ///< variable that is set where it works
  std::array<const char*, 6> arguments;
};
constexpr std::array helpers{Helper{"WAYLAND_DISPLAY", {"wl-copy", "--type", "image/png", nullptr}},
                             Helper{"DISPLAY", {"xclip", "-selection", "clipboard", "-target", "image/png", nullptr}}};

/// Whether the helper took all of `input`. It answers at once and goes on in the background.
bool took(const Helper& helper, int input) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
  for (const int quiet : {STDOUT_FILENO, STDERR_FILENO})
    posix_spawn_file_actions_addopen(&actions, quiet, "/dev/null", O_WRONLY, 0);
  std::array<char*, 6> arguments{};
  for (std::size_t i = 0; i < arguments.size(); ++i) arguments[i] = const_cast<char*>(helper.arguments[i]);
  pid_t child = 0;
  const int failed = posix_spawnp(&child, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) return false;
  constexpr int most_waits = 200;
  for (int i = 0; i < most_waits; ++i) {
    int status = 0;
    const pid_t ended = waitpid(child, &status, WNOHANG);
    if (ended != 0) return ended == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return true;  // it keeps the picture itself
}

bool is_set(const char* variable) {
  const char* value = std::getenv(variable);
  return value && *value;
}

}  // namespace

void copy_picture(std::string_view png) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::tmpfile(), std::fclose);
  if (!file || std::fwrite(png.data(), 1, png.size(), file.get()) != png.size() || std::fflush(file.get()) != 0)
    throw Error(ExitCode::failure, "the picture was not copied: the folder for temporary files is full or missing");
  for (const Helper& helper : helpers) {
    if (!is_set(helper.display)) continue;
    std::rewind(file.get());
    if (took(helper, fileno(file.get()))) return;
  }
  throw Error(ExitCode::failure,
              "the picture was not copied: that takes xclip, or on Wayland wl-clipboard; install it, or press Ctrl E "
              "to write a file");
}

}  // namespace afterglow
