// Numbers of a tensor on the host, of more than come at once.
#include "core/backend/host_numbers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "core/backend/cpu/cpu_backend.h"

namespace afterglow {
namespace {

TEST(HostNumbers, AreThoseOfTheTensorHoweverManyItHas) {
  const std::unique_ptr<Backend> backend = make_cpu_backend(1);
  HostReader reader;
  for (const std::int64_t count : {9'000'001, 0, 1, 1 << 22}) {  // fewer behind more, in the same memory
    std::vector<float> numbers(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = 0.5f * static_cast<float>(i % 1'000'003);
    const Tensor tensor(numbers.data(), {count}, DType::f32);
    const std::vector<double> expected(numbers.begin(), numbers.end());
    EXPECT_EQ(to_host(*backend, tensor), expected) << count;
    const std::span<const double> read = reader.read(*backend, tensor);
    EXPECT_TRUE(std::equal(read.begin(), read.end(), expected.begin(), expected.end())) << count;
  }
}

}  // namespace
}  // namespace afterglow
