// Child processes of posix_spawn; their exit is polled every few milliseconds.
#include "core/io/child_process.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

extern char** environ;

namespace afterglow {

pid_t start_program(const std::vector<std::string>& words, const std::vector<GivenFile>& files) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  for (const int quiet : {STDOUT_FILENO, STDERR_FILENO})
    posix_spawn_file_actions_addopen(&actions, quiet, "/dev/null", O_WRONLY, 0);
  for (const GivenFile& file : files) posix_spawn_file_actions_adddup2(&actions, file.own, file.childs);
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  pid_t child = -1;
  if (posix_spawnp(&child, arguments[0], &actions, nullptr, arguments.data(), environ) != 0) child = -1;
  posix_spawn_file_actions_destroy(&actions);
  return child;
}

std::optional<bool> ends_well(pid_t child, std::chrono::seconds patience) {
  constexpr std::chrono::milliseconds pause{10};
  for (auto waited = std::chrono::milliseconds::zero(); waited < patience; waited += pause) {
    int status = 0;
    const pid_t ended = waitpid(child, &status, WNOHANG);
    if (ended != 0) return ended == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
    std::this_thread::sleep_for(pause);
  }
  return std::nullopt;
}

}  // namespace afterglow
