// Reads what the kernel says about memory: /proc/meminfo, the control groups of this process, its resource limits.
#include "core/backend/host_memory.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <optional>

#include "core/io/error.h"
#include "core/io/number_text.h"

namespace afterglow {
namespace fs = std::filesystem;
namespace {

constexpr std::uint64_t smallest_looked_at = std::uint64_t{32} << 20;
constexpr std::uint64_t kibi = 1024;  // the unit of /proc
constexpr std::uint64_t unlimited = std::numeric_limits<std::uint64_t>::max();

/// The number behind `key` in a file of lines "key number"; with an empty key the first number.
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

/// What a group may still take; files in its cache go when memory is needed.
std::uint64_t free_of_group(const fs::path& group, const char* limit, const char* used, const char* cache) {
  const auto most = number_in(group / limit), now = number_in(group / used);
  if (!most || !now) return unlimited;
  return minus(*most, minus(*now, number_in(group / "memory.stat", cache).value_or(0)));
}

/// Every group above this process may have a limit of its own.
std::uint64_t free_of_groups() {
  const fs::path root = "/sys/fs/cgroup";
  std::uint64_t least =
      free_of_group(root / "memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file");
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    if (!line.starts_with("0::/")) continue;
    for (fs::path group = root / line.substr(4);; group = group.parent_path()) {
      least = std::min(least, free_of_group(group, "memory.max", "memory.current", "inactive_file"));
      if (group == root || !group.has_relative_path()) break;
    }
  }
  return least;
}

std::uint64_t free_of_process() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return unlimited;
  const std::uint64_t pages = number_in("/proc/self/statm").value_or(0);
  return minus(limit.rlim_cur, pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)));
}

}  // namespace

HostMemory free_host_memory() {
  HostMemory memory{free_of_machine(), "on this machine"};
  lower(memory, free_of_groups(), "in its control group");
  lower(memory, free_of_process(), "under its limit (ulimit -v)");
  return memory;
}

std::int64_t resident_bytes() {
  return static_cast<std::int64_t>(number_in("/proc/self/status", "VmRSS:").value_or(0) * kibi);
}

void require_host_memory(std::uint64_t bytes) {
  if (bytes < smallest_looked_at) return;
  const HostMemory memory = free_host_memory();
  if (bytes <= memory.free_bytes) return;
  throw Error(ExitCode::out_of_memory, "not enough memory: " + bytes_text(bytes) + " more are needed and " +
                                           bytes_text(memory.free_bytes) + " are free " + memory.limit +
                                           "; choose a smaller model, batch or length");
}

}  // namespace afterglow
