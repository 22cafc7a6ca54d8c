// The matrix product in every form: transposed or not, factors, strided rows, awkward sizes, unused memory.
#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "core/random/random.h"
#include "tests/support/host_values.h"
#include "tests/support/op_case.h"

namespace afterglow::testing {
namespace {

struct Product {
  std::int64_t m, n, k;
  bool transpose_a, transpose_b;
  double alpha, beta;
};

class Matmul : public ::testing::TestWithParam<int> {
 protected:
  /// A matrix inside a wider one: columns [2, 2 + columns) of rows of columns + 5.
  Tensor matrix(HostValues& host, std::int64_t rows, std::int64_t columns) {
    std::vector<double> values(static_cast<std::size_t>(rows * (columns + 5)));
    for (double& value : values) value = random_.normal();
    return host.f64({rows, columns + 5}, values).column_range(2, columns);
  }
  static double at(const Tensor& t, bool transposed, std::int64_t i, std::int64_t j) {
    return transposed ? t.as<double>()[j * t.row_stride + i] : t.as<double>()[i * t.row_stride + j];
  }
  Random random_{5};
};

TEST_P(Matmul, AgreesWithTheDefinition) {
  const std::unique_ptr<Backend> backend = make_cpu_backend(GetParam());
  HostValues host(*backend);
  const std::int64_t sizes[][3] = {{1, 1, 1}, {1, 101, 37}, {101, 1, 63}, {37, 65, 1}, {65, 63, 101}, {300, 101, 130}};
  for (const auto& [m, n, k] : sizes) {
    for (const bool ta : {false, true}) {
      for (const bool tb : {false, true}) {
        const Tensor a = ta ? matrix(host, k, m) : matrix(host, m, k), b = tb ? matrix(host, n, k) : matrix(host, k, n);
        for (const auto& [alpha, beta] : {std::pair(1.0, 0.0), {1.0, 1.0}, {-0.5, 2.0}, {0.0, 0.5}, {2.0, 0.0}}) {
          const Tensor c = matrix(host, m, n);
          Values want, got;
          for (std::int64_t i = 0; i < m; ++i) {
            for (std::int64_t j = 0; j < n; ++j) {
              double sum = 0.0;
              for (std::int64_t l = 0; l < k; ++l) sum += at(a, ta, i, l) * at(b, tb, l, j);
              want.push_back(alpha * sum + beta * at(c, false, i, j));
            }
          }
          const double guard = c.as<double>()[n];
          backend->gemm(ta, tb, alpha, a, b, beta, c);
          for (std::int64_t i = 0; i < m; ++i)
            for (std::int64_t j = 0; j < n; ++j) got.push_back(at(c, false, i, j));
          EXPECT_LE(relative_error(got, want), 1e-13) << m << ' ' << n << ' ' << k << ' ' << alpha << ' ' << beta;
          EXPECT_EQ(c.as<double>()[n], guard);
        }
      }
    }
  }
}

TEST_P(Matmul, IgnoresWhatWasInTheResult) {
  const std::unique_ptr<Backend> backend = make_cpu_backend(GetParam());
  HostValues host(*backend);
  const Tensor c = host.f64({2, 2}, Values(4, std::numeric_limits<double>::quiet_NaN()));
  const Tensor one = host.f64({2, 2}, {1, 0, 0, 1});
  backend->gemm(false, false, 1.0, one, one, 0.0, c);
  EXPECT_THAT(host.read<double>(c), ::testing::ElementsAre(1, 0, 0, 1));
}

INSTANTIATE_TEST_SUITE_P(Threads, Matmul, ::testing::Values(1, 3));

}  // namespace
}  // namespace afterglow::testing
