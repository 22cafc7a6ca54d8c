// Runs the tests of this folder, all in one process. Where there is no GPU it says why and answers what ctest counts as
// skipped; a skipped test has not passed.
#include <gtest/gtest.h>

#include <cstdio>

#include "gpu/cuda.h"

int main(int argument_count, char** arguments) {
  ::testing::InitGoogleTest(&argument_count, arguments);
  constexpr int skipped = 77;  // SKIP_RETURN_CODE in tests/CMakeLists.txt
  const afterglow::CudaSystem system = afterglow::cuda_devices();
  if (!system.devices.empty()) return RUN_ALL_TESTS();
  GTEST_FLAG_SET(filter, "CudaSystemTest.*");  // what is asked of a machine without one
  if (const int failed = RUN_ALL_TESTS(); failed != 0) return failed;
  std::printf("no GPU here: %s\n", system.why_none.c_str());
  return skipped;
}
