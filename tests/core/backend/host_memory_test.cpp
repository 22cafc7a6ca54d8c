// What the system still grants.
#include "core/backend/host_memory.h"

#include <gmock/gmock.h>
#include <sys/resource.h>

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
  EXPECT_THAT(none.limit, testing::HasSubstr("ulimit -v"));
}

TEST(HostMemory, ARequestThatIsTooLargeIsToldWithItsNumbers) {
  const auto backend = make_cpu_backend(1);
  constexpr std::size_t petabyte = std::size_t{1} << 50;
  try {
    backend->allocate(petabyte);
    FAIL() << "a petabyte was granted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::out_of_memory);
    EXPECT_THAT(error.what(), testing::AllOf(testing::HasSubstr("are needed"), testing::HasSubstr("are free")));
  }
  EXPECT_EQ(backend->held_bytes(), 0u);
}

}  // namespace
}  // namespace afterglow
