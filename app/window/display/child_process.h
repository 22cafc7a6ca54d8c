// Other programs that the window lets do a piece of work, without a shell.
#pragma once
#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace afterglow {

/// A file of this process under a number of the child's.
struct GivenFile {
  int own, childs;
};

/// Starts the program of this name on the PATH. It has the given files, and nothing at output and errors where none is
/// given. -1 where there is no such program.
pid_t start_program(const std::vector<std::string>& words, const std::vector<GivenFile>& files);

/// Whether it ended well within the time; nothing where it still runs.
std::optional<bool> ends_well(pid_t child, std::chrono::seconds patience);

}  // namespace afterglow
