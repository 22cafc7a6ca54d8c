// The benchmark of a head, at a size for a test.
#include <gtest/gtest.h>

#include "app/cli/bench/bench_layers.h"

namespace afterglow {
namespace {

TEST(HeadBench, ByChunksItHoldsLessThanWithAllLogits) {
  const std::unique_ptr<Backend> backend = make_cpu_backend(1);
  const auto held = [&](bool in_chunks) {
    HeadBench bench({"small", 2, 48, 8, 1024, in_chunks, false}, *backend);
    bench.run();
    EXPECT_EQ(bench.flops(), 6.0 * 96 * 8 * 1024);
    return bench.held_bytes();
  };
  EXPECT_LT(held(true), held(false));
}

}  // namespace
}  // namespace afterglow
