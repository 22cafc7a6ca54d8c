// The matrix product in every form: transposed or not, factors, strided rows, awkward sizes, unused memory.
#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <tuple>

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

/// op(a) op(b) [m, n] in one precision, each matrix inside a wider one whose other numbers are not numbers.
template <class T>
class TileCase {
 public:
  TileCase(Backend& backend, std::int64_t m, std::int64_t n, std::int64_t k, bool ta, bool tb)
      : host_(backend), m_(m), n_(n), k_(k), ta_(ta), tb_(tb) {
    a_ = ta ? matrix(k, m) : matrix(m, k);
    b_ = tb ? matrix(n, k) : matrix(k, n);
    c_ = matrix(m, n);
    before_ = host_.template read<T>(whole_);
  }
  void run(Backend& backend, bool accumulate) { backend.gemm(ta_, tb_, 1.0, a_, b_, accumulate ? 1.0 : 0.0, c_); }
  std::vector<T> numbers() const { return host_.template read<T>(whole_); }

  /// How far the result lies from float64's, as a part of what rounding of k products and their sum may add up to.
  double worst(bool accumulate) const {
    double most = 0.0;
    for (std::int64_t i = 0; i < m_; ++i) {
      for (std::int64_t j = 0; j < n_; ++j) {
        long double sum = accumulate ? before_[place(i, j)] : T{0}, size = std::abs(sum);
        for (std::int64_t l = 0; l < k_; ++l) {
          const long double term = static_cast<long double>(at(a_, ta_, i, l)) * at(b_, tb_, l, j);
          sum += term;
          size += std::abs(term);
        }
        const long double bound = static_cast<long double>(k_ + 2) * std::numeric_limits<T>::epsilon() / 2 * size;
        most = std::max(most, static_cast<double>(std::abs(at(c_, false, i, j) - sum) / bound));
      }
    }
    return most;
  }
  /// Whether everything around the result is unchanged.
  bool leaves_the_rest() const {
    const std::vector<T> now = numbers();
    for (std::size_t i = 0; i < now.size(); ++i) {
      const auto column = static_cast<std::int64_t>(i) % (n_ + 5);
      if ((column < 2 || column >= n_ + 2) && !std::isnan(now[i])) return false;
    }
    return true;
  }

 private:
  Tensor matrix(std::int64_t rows, std::int64_t columns) {
    std::vector<T> values(static_cast<std::size_t>(rows * (columns + 5)), std::numeric_limits<T>::quiet_NaN());
    for (std::int64_t i = 0; i < rows; ++i) {
      for (std::int64_t j = 0; j < columns; ++j)
        values[static_cast<std::size_t>(i * (columns + 5) + 2 + j)] = static_cast<T>(random_.normal());
    }
    whole_ = host_.tensor({rows, columns + 5}, sizeof(T) == 4 ? DType::f32 : DType::f64, values);
    return whole_.column_range(2, columns);
  }
  static T at(const Tensor& t, bool transposed, std::int64_t i, std::int64_t j) {
    return transposed ? t.as<T>()[j * t.row_stride + i] : t.as<T>()[i * t.row_stride + j];
  }
  std::size_t place(std::int64_t i, std::int64_t j) const { return static_cast<std::size_t>(i * (n_ + 5) + 2 + j); }

  HostValues host_;
  Random random_{11};
  std::int64_t m_, n_, k_;
  bool ta_, tb_;
  Tensor a_, b_, c_, whole_;  // `whole_` is the memory around the matrix made last: the result
  std::vector<T> before_;
};

/// Sizes around those of a register, a panel, a tile and the depth to which a sum runs at once.
template <class T, class Body>
void for_awkward_products(Backend& backend, const Body& body) {
  const std::int64_t sizes[] = {1, 2, 7, 13, 14, 15, 16, 17, 29, 31, 32, 33, 100};
  for (const std::int64_t m : sizes) {
    for (const std::int64_t n : sizes) {
      for (const std::int64_t k : {1, 3, 4, 5, 17, 64, 257}) {
        for (const int form : {0, 1, 2, 3}) {
          TileCase<T> tile(backend, m, n, k, form % 2 == 1, form / 2 == 1);
          body(tile, "m " + std::to_string(m) + " n " + std::to_string(n) + " k " + std::to_string(k) + " form " +
                         std::to_string(form));
        }
      }
    }
  }
}

template <class T>
void expect_rounding_only() {
  const std::unique_ptr<Backend> backend = make_cpu_backend(1);
  for (const bool accumulate : {false, true}) {
    for_awkward_products<T>(*backend, [&](TileCase<T>& tile, const std::string& what) {
      tile.run(*backend, accumulate);
      EXPECT_LE(tile.worst(accumulate), 1.0) << what;
      EXPECT_TRUE(tile.leaves_the_rest()) << what;
    });
  }
}
TEST(MatmulTiles, DifferFromTheDefinitionByRoundingOnlyInFloat32) { expect_rounding_only<float>(); }
TEST(MatmulTiles, DifferFromTheDefinitionByRoundingOnlyInFloat64) { expect_rounding_only<double>(); }

TEST(MatmulTiles, SumNothingToZero) {
  const std::unique_ptr<Backend> backend = make_cpu_backend(1);
  HostValues host(*backend);
  const Tensor c = host.f32({2, 3}, std::vector<float>(6, 5.0f)), memory = host.f32({8}, std::vector<float>(8));
  const Tensor a(memory.data, {2, 0}, DType::f32), b(memory.data, {0, 3}, DType::f32);
  backend->gemm(false, false, 1.0, a, b, 1.0, c);
  EXPECT_THAT(host.read<float>(c), ::testing::Each(5.0f));
  backend->gemm(false, false, 1.0, a, b, 0.0, c);
  EXPECT_THAT(host.read<float>(c), ::testing::Each(0.0f));
}

/// The bits may depend neither on the number of threads nor on which other rows are asked for.
TEST(MatmulTiles, GiveTheSameBitsWithEveryNumberOfThreads) {
  for (const int form : {0, 1, 2, 3}) {
    for (const auto& [m, n, k] : {std::tuple(1000, 100, 64), {130, 33, 700}, {64, 128, 2048}}) {
      std::vector<std::vector<float>> results;
      for (const int threads : {1, 2, 8}) {
        const std::unique_ptr<Backend> backend = make_cpu_backend(threads);
        TileCase<float> tile(*backend, m, n, k, form % 2 == 1, form / 2 == 1);
        tile.run(*backend, true);
        results.push_back(tile.numbers());
      }
      const std::size_t bytes = results[0].size() * sizeof(float);
      EXPECT_EQ(std::memcmp(results[0].data(), results[1].data(), bytes), 0) << form << ' ' << m;
      EXPECT_EQ(std::memcmp(results[0].data(), results[2].data(), bytes), 0) << form << ' ' << m;
    }
  }
}

TEST(MatmulTiles, GiveARowTheSameBitsWhateverItsNeighbours) {
  const std::unique_ptr<Backend> backend = make_cpu_backend(1);
  HostValues host(*backend);
  Random random(3);
  std::vector<float> left(100 * 50), right(50 * 40);
  for (float& value : left) value = static_cast<float>(random.normal());
  for (float& value : right) value = static_cast<float>(random.normal());
  const Tensor a = host.f32({100, 50}, left), b = host.f32({50, 40}, right);
  const Tensor all = host.f32({100, 40}, std::vector<float>(100 * 40)),
               few = host.f32({3, 40}, std::vector<float>(3 * 40));
  backend->gemm(false, false, 1.0, a, b, 0.0, all);
  for (std::int64_t row = 0; row + 3 <= 100; ++row) {
    const Tensor some(a.as<float>() + row * 50, {3, 50}, DType::f32);
    backend->gemm(false, false, 1.0, some, b, 0.0, few);
    EXPECT_EQ(std::memcmp(few.as<float>(), all.as<float>() + row * 40, 3 * 40 * sizeof(float)), 0) << row;
  }
}

INSTANTIATE_TEST_SUITE_P(Threads, Matmul, ::testing::Values(1, 3));

}  // namespace
}  // namespace afterglow::testing
