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
  for (const std::int64_t count : {9'000'001, 0, 1, 1 << 22}) {  // fewer after more, in the same memory
    std::vector<float> numbers(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = 0.5f * static_cast<float>(i % 1'000'003);
    const Tensor tensor(numbers.data(), {count}, DType::f32);
    const std::vector<double> expected(numbers.begin(), numbers.end());
    EXPECT_EQ(to_host(*backend, tensor), expected) << count;
    const std::span<const double> read = reader.read(*backend, tensor);
    EXPECT_TRUE(std::equal(read.begin(), read.end(), expected.begin(), expected.end())) << count;
  }
}

TEST(HostNumbers, AreWidenedPieceByPieceFromWhatWasStored) {
  const std::unique_ptr<Backend> backend = make_cpu_backend(1);
  std::vector<float> narrow(3 << 20);
  for (std::size_t i = 0; i < narrow.size(); ++i) narrow[i] = 0.1f * static_cast<float>(i);
  int pieces = 0;
  const Tensor floats(narrow.data(), {static_cast<std::int64_t>(narrow.size())}, DType::f32);
  EXPECT_EQ(to_doubles(stored_numbers(*backend, floats), [&] { ++pieces; }),
            std::vector<double>(narrow.begin(), narrow.end()));
  EXPECT_EQ(pieces, 3);
  std::vector<double> wide{0.1, -1e300, 3};
  EXPECT_EQ(to_doubles(stored_numbers(*backend, Tensor(wide.data(), {3}, DType::f64))), wide);
  EXPECT_TRUE(to_doubles(StoredNumbers{}).empty());
}

}  // namespace
}  // namespace afterglow
