// What the system still grants.
#include "core/backend/host_memory.h"

#include <gmock/gmock.h>
#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "core/backend/backend.h"
#include "core/io/error.h"

namespace afterglow {
namespace {

TEST(HostMemory, KnowsTheMachineAndTheProcessLimit) {
  const HostMemory free = free_host_memory();
  EXPECT_GT(free.free_bytes, std::uint64_t{1} << 20);
  EXPECT_LT(free.free_bytes, std::uint64_t{1} << 50);
  rlimit old{};
  ::getrlimit(RLIMIT_AS, &old);
  rlimit narrow = old;
  narrow.rlim_cur = 1;  // less than is in use
  ::setrlimit(RLIMIT_AS, &narrow);
  const HostMemory none = free_host_memory();
  ::setrlimit(RLIMIT_AS, &old);
  EXPECT_EQ(none.free_bytes, 0u);
  EXPECT_THAT(none.limit, ::testing::HasSubstr("ulimit -v"));
}

TEST(HostMemory, EveryControlGroupAboveTheProcessMayHaveTheTightestLimit) {
  namespace fs = std::filesystem;
  const fs::path root = fs::temp_directory_path() / ("afterglow_groups_" + std::to_string(::getpid()));
  fs::create_directories(root / "job" / "step");
  fs::create_directories(root / "memory");
  const auto put = [&](const char* file, const char* text) { std::ofstream(root / file) << text; };
  const auto free = [&] { return free_of_groups(root, root / "groups"); };
  put("groups", "0::/job/step\n");
  EXPECT_EQ(free(), UINT64_MAX) << "nothing is limited";
  put("job/step/memory.max", "max\n");
  put("job/step/memory.current", "300000\n");
  put("job/memory.max", "1000000\n");
  put("job/memory.current", "700000\n");
  put("job/memory.stat", "anon 5\ninactive_file 100000\n");
  EXPECT_EQ(free(), 400000u) << "files in the cache of the group above give way";
  put("job/step/memory.max", "500000\n");
  EXPECT_EQ(free(), 200000u);
  put("job/step/memory.current", "600000\n");
  EXPECT_EQ(free(), 0u);
  put("groups", "7:cpu,cpuacct:/other\n3:memory:/job/step\n0::/\n");
  put("memory/memory.limit_in_bytes", "90000\n");
  put("memory/memory.usage_in_bytes", "20000\n");
  EXPECT_EQ(free(), 70000u) << "of the first version";
  fs::create_directories(root / "memory" / "job");
  put("memory/job/memory.limit_in_bytes", "60000\n");
  put("memory/job/memory.usage_in_bytes", "25000\n");
  put("memory/job/memory.stat", "total_inactive_file 5000\n");
  EXPECT_EQ(free(), 40000u) << "of a job on a cluster";
  fs::remove_all(root);
}

TEST(HostMemory, ARequestThatIsTooLargeIsToldWithItsNumbers) {
  const auto backend = make_cpu_backend(1);
  constexpr std::size_t petabyte = std::size_t{1} << 50;
  try {
    backend->allocate(petabyte);
    FAIL() << "a petabyte was granted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::out_of_memory);
    EXPECT_THAT(error.what(), ::testing::AllOf(::testing::HasSubstr("are needed"), ::testing::HasSubstr("are free")));
  }
  EXPECT_EQ(backend->held_bytes(), 0u);
}

}  // namespace
}  // namespace afterglow
