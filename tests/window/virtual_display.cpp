// Processes of the display server and of the program.
#include "tests/window/virtual_display.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

namespace afterglow {

namespace {

bool exists_on_path(const char* program) {
  return std::system((std::string("command -v ") + program + " >/dev/null 2>&1").c_str()) == 0;
}

}  // namespace

void sleep_seconds(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

VirtualDisplay::VirtualDisplay() {
  int pipe_ends[2];
  if (!exists_on_path("Xvfb") || !exists_on_path("xdotool") || pipe(pipe_ends) != 0) return;
  server_ = fork();
  if (server_ == 0) {
    // The server writes the number of its display, so that tests may run side by side. Without `-noreset` it would
    // start anew after its last client, xdotool, and turn away a program that comes just then.
    const std::string end = std::to_string(pipe_ends[1]);
    const int nothing = open("/dev/null", O_WRONLY);
    dup2(nothing, STDERR_FILENO);
    execlp("Xvfb", "Xvfb", "-displayfd", end.c_str(), "-screen", "0", "1600x1000x24", "-nolisten", "tcp", "-noreset",
           nullptr);
    _exit(127);
  }
  close(pipe_ends[1]);
  char text[16] = {};
  const ssize_t size = read(pipe_ends[0], text, sizeof text - 1);
  close(pipe_ends[0]);
  if (size > 0) name_ = ":" + std::to_string(std::atoi(text));
}

VirtualDisplay::~VirtualDisplay() {
  if (server_ <= 0) return;
  kill(server_, SIGTERM);
  waitpid(server_, nullptr, 0);
}

std::string VirtualDisplay::xdotool(const std::string& arguments) const {
  FILE* out = popen(("DISPLAY=" + name_ + " xdotool " + arguments + " 2>/dev/null").c_str(), "r");
  std::string text;
  char part[256];
  while (out && std::fgets(part, sizeof part, out)) text += part;
  if (out) pclose(out);
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

RunningProgram::RunningProgram(const VirtualDisplay& display, const std::filesystem::path& home,
                               const std::vector<std::string>& command) {
  process_ = fork();
  if (process_ != 0) return;
  setenv("DISPLAY", display.name().c_str(), 1);
  setenv("HOME", home.c_str(), 1);
  for (const char* name : {"XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "WAYLAND_DISPLAY"})
    unsetenv(name);
  const int in = open("/dev/null", O_RDONLY);
  const int out = open((home / "output.txt").c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  dup2(in, STDIN_FILENO);
  dup2(out, STDOUT_FILENO);
  dup2(out, STDERR_FILENO);
  if (chdir(home.c_str()) != 0) _exit(126);
  std::vector<char*> words;
  for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  execv(words[0], words.data());
  _exit(127);
}

RunningProgram::~RunningProgram() {
  if (!is_running()) return;
  kill(process_, SIGKILL);
  waitpid(process_, nullptr, 0);
}

bool RunningProgram::is_running() {
  if (process_ <= 0) return false;
  if (waitpid(process_, &status_, WNOHANG) == 0) return true;
  process_ = -1;
  return false;
}

void RunningProgram::send(int signal) const { kill(process_, signal); }

int RunningProgram::exit_code(double seconds) {
  if (!wait_until(seconds, [&] { return !is_running(); })) return -1;
  return WIFEXITED(status_) ? WEXITSTATUS(status_) : 128 + WTERMSIG(status_);
}

}  // namespace afterglow
