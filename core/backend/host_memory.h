// How much memory the system still grants. A request that is too large fails with both sizes in its message; without
// this check a system that overcommits memory would kill the program when it writes to it.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>

namespace afterglow {

struct HostMemory {
  std::uint64_t free_bytes = 0;
  std::string limit;  ///< what says so, for people: "this machine", "its control group", "ulimit -v"
};

/// The least of what the machine has free, and what the limits of control groups and of the process leave.
HostMemory free_host_memory();

/// Bytes that the control groups of a process still leave: the least of its own group and all above it. `root` is where
/// groups are mounted, `groups` names those of the process (/proc/self/cgroup); UINT64_MAX where none has a limit.
std::uint64_t free_of_groups(const std::filesystem::path& root, const std::filesystem::path& groups);

/// Resident memory of this program, from the kernel's own account; 0 where the system keeps none.
std::int64_t resident_bytes();

/// Throws Error(out_of_memory) with both numbers where less than `bytes` is free. Small requests are not checked.
void require_host_memory(std::uint64_t bytes);

}  // namespace afterglow
