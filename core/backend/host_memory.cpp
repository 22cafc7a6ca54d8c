// Reads what the kernel says about memory: /proc/meminfo, the control groups of this process, its resource limits.
#include "core/backend/host_memory.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>

#include "core/io/error.h"
#include "core/io/number_text.h"

namespace afterglow {
namespace fs = std::filesystem;
namespace {

constexpr std::uint64_t smallest_checked = std::uint64_t{32} << 20;
constexpr std::uint64_t kibi = 1024;  // the unit of /proc
constexpr std::uint64_t unlimited = std::numeric_limits<std::uint64_t>::max();

/// The number after `key` in a file of lines "key number"; with an empty key the first number.
std::optional<std::uint64_t> number_in(const fs::path& path, const std::string& key = "") {
  std::ifstream file(path);
  for (std::string word; word != key;) {
    if (!(file >> word)) return std::nullopt;
  }
  std::uint64_t number = 0;
  if (file >> number) return number;
  return std::nullopt;
}

std::uint64_t minus(std::uint64_t limit, std::uint64_t used) { return limit > used ? limit - used : 0; }

void lower(HostMemory& memory, std::uint64_t free, const char* limit) {
  if (free < memory.free_bytes) memory = {free, limit};
}

std::uint64_t free_of_machine() {
  const auto available = number_in("/proc/meminfo", "MemAvailable:"), swap = number_in("/proc/meminfo", "SwapFree:");
  return available ? (*available + swap.value_or(0)) * kibi : unlimited;
}

/// What the files of a control group are called in one of the two versions.
struct GroupFiles {
  const char *limit, *used, *cache;
};
constexpr GroupFiles first_version{"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"};
constexpr GroupFiles second_version{"memory.max", "memory.current", "inactive_file"};

/// What a group may still take; files in its cache go when memory is needed.
std::uint64_t free_of_group(const fs::path& group, const GroupFiles& files) {
  const auto most = number_in(group / files.limit), now = number_in(group / files.used);
  if (!most || !now) return unlimited;
  return minus(*most, minus(*now, number_in(group / "memory.stat", files.cache).value_or(0)));
}

/// The least of a group and all above it; in a container the group's own name may lead nowhere.
std::uint64_t free_of_group_and_above(const fs::path& root, const std::string& name, const GroupFiles& files) {
  std::uint64_t least = free_of_group(root, files);
  for (fs::path group = root / fs::path(name).relative_path(); group != root && group.has_relative_path();
       group = group.parent_path())
    least = std::min(least, free_of_group(group, files));
  return least;
}

std::uint64_t free_of_process() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return unlimited;
  const std::uint64_t pages = number_in("/proc/self/statm").value_or(0);
  return minus(limit.rlim_cur, pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)));
}

}  // namespace

std::uint64_t free_of_groups(const fs::path& root, const fs::path& groups) {
  std::uint64_t least = unlimited;
  std::ifstream lines(groups);
  for (std::string line; std::getline(lines, line);) {  // "number:controllers:name", without controllers the second
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",",
                      name = line.substr(second + 1);
    if (controllers == ",,") least = std::min(least, free_of_group_and_above(root, name, second_version));
    if (controllers.find(",memory,") != std::string::npos)
      least = std::min(least, free_of_group_and_above(root / "memory", name, first_version));
  }
  return least;
}

HostMemory free_host_memory() {
  HostMemory memory{free_of_machine(), "on this machine"};
  lower(memory, free_of_groups("/sys/fs/cgroup", "/proc/self/cgroup"), "in its control group");
  lower(memory, free_of_process(), "under its limit (ulimit -v)");
  return memory;
}

std::int64_t resident_bytes() {
  return static_cast<std::int64_t>(number_in("/proc/self/status", "VmRSS:").value_or(0) * kibi);
}

void require_host_memory(std::uint64_t bytes) {
  if (bytes < smallest_checked) return;
  const HostMemory memory = free_host_memory();
  if (bytes <= memory.free_bytes) return;
  throw Error(ExitCode::out_of_memory, "not enough memory: ", bytes_text(bytes), " more are needed and ",
              bytes_text(memory.free_bytes), " are free ", memory.limit,
              "; choose a smaller model, batch or length; training takes less with --set recompute=16");
}

}  // namespace afterglow
