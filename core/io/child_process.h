// Runs other programs, without a shell.
#pragma once
#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace afterglow {

/// A file of this process and its number in the child.
struct GivenFile {
  int own, childs;
};

/// Starts the program of this name on the PATH. The child gets only the given files; output and errors are discarded
/// unless a file is given. Returns -1 if there is no such program.
pid_t start_program(const std::vector<std::string>& words, const std::vector<GivenFile>& files);

/// Whether the child ended with success within the time; empty while it still runs.
std::optional<bool> ends_well(pid_t child, std::chrono::seconds patience);

}  // namespace afterglow
