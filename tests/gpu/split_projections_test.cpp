// Large projections in fp32, whose operands a GPU with warp groups splits once for all that multiply them, against sums
// in float64.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/gpu/gpu_test.h"
#include "tests/support/host_values.h"
#include "tests/support/op_case.h"

namespace afterglow::testing {
namespace {

struct ProjectionCase {
  const char* name;
  std::int64_t rows, inputs;
  std::vector<std::int64_t> outputs;
  std::int64_t between = 0;  // numbers after each row of a result
};

void PrintTo(const ProjectionCase& of, std::ostream* out) { *out << of.name; }

using Numbers = std::vector<float>;

/// Rows of sizes that differ by five powers of ten, side by side; and a few of zeros.
Numbers uneven(std::int64_t rows, std::int64_t columns, unsigned seed) {
  Numbers numbers = random_floats(rows * columns, seed);
  for (std::int64_t row = 0; row < rows; ++row) {
    const double size = row % 13 == 12 ? 0.0 : std::pow(10.0, -static_cast<double>(row % 6));
    for (std::int64_t i = 0; i < columns; ++i)
      numbers[static_cast<std::size_t>(row * columns + i)] *= static_cast<float>(size);
  }
  return numbers;
}

/// A sum of products in float64, and that of their sizes.
struct Sum {
  double value = 0, size = 0;
  void add(float a, float b) {
    value += static_cast<double>(a) * b;
    size += std::fabs(static_cast<double>(a) * b);
  }
};

class SplitProjections : public OnPath<::testing::TestWithParam<std::tuple<ProjectionCase, Path>>> {
 protected:
  void SetUp() override {
    OnPath::SetUp();
    const ProjectionCase& of = std::get<0>(GetParam());
    x_ = uneven(of.rows, of.inputs, 1);
    for (unsigned i = 0; i < of.outputs.size(); ++i) {
      weights_.push_back(random_floats(of.outputs[i] * of.inputs, 2 + i));
      gradients_.push_back(uneven(of.rows, of.outputs[i], 9 + i));
    }
    take(std::get<1>(GetParam()));
  }

  struct Answer {
    std::vector<Numbers> results, dweights;
    Numbers dx;
    friend bool operator==(const Answer&, const Answer&) = default;
  };
  /// Gradients are added to ones.
  Answer answer() {
    const auto& [name, rows, inputs, outputs, between] = std::get<0>(GetParam());
    HostValues host(*cuda_);
    const Tensor x = host.f32({rows, inputs}, x_), dx = ones(host, rows, inputs);
    std::vector<Tensor> weights, results, dresults;
    std::vector<Grad> dweights;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      weights.push_back(host.f32({outputs[i], inputs}, weights_[i]));
      results.push_back(apart(host, outputs[i], Numbers(static_cast<std::size_t>(rows * outputs[i]))));
      dresults.push_back(apart(host, outputs[i], gradients_[i]));
      dweights.push_back({ones(host, outputs[i], inputs), true});
    }
    cuda_->linear_forward_many(x, weights, {}, results, {});
    cuda_->linear_backward({dresults, weights, x, {}, dweights, {}, {dx, true}});
    cuda_->synchronize();
    Answer answer{{}, {}, host.read<float>(dx)};
    for (const Tensor& result : results) answer.results.push_back(read(host, result));
    for (const Grad& dweight : dweights) answer.dweights.push_back(host.read<float>(dweight.tensor));
    return answer;
  }
  static Tensor ones(HostValues& host, std::int64_t rows, std::int64_t columns) {
    return host.f32({rows, columns}, Numbers(static_cast<std::size_t>(rows * columns), 1.0f));
  }
  /// These numbers as rows with NaN between them.
  Tensor apart(HostValues& host, std::int64_t columns, const Numbers& numbers) {
    const auto& of = std::get<0>(GetParam());
    const std::int64_t stride = columns + of.between;
    Numbers all(static_cast<std::size_t>(of.rows * stride), std::nanf(""));
    for (std::int64_t row = 0; row < of.rows; ++row)
      std::copy_n(numbers.begin() + row * columns, columns, all.begin() + row * stride);
    Tensor rows = host.f32({of.rows, stride}, all);
    rows.shape = {of.rows, columns};
    rows.row_stride = stride;
    return rows;
  }
  /// The numbers of such rows.
  static Numbers read(const HostValues& host, const Tensor& rows) {
    const Numbers all = host.read<float>({rows.data, {rows.rows(), rows.row_stride}, rows.dtype});
    Numbers numbers;
    for (std::int64_t row = 0; row < rows.rows(); ++row)
      numbers.insert(numbers.end(), all.begin() + row * rows.row_stride,
                     all.begin() + row * rows.row_stride + rows.columns());
    return numbers;
  }

  static void expect_close(float got, const Sum& want, const std::string& what) {
    EXPECT_LE(std::fabs(got - want.value), 4e-7 * want.size + 1e-30) << what << ": " << got << ", not " << want.value;
  }

  Numbers x_;
  std::vector<Numbers> weights_, gradients_;
};

constexpr std::int64_t step = 397;  // between the numbers that are compared

TEST_P(SplitProjections, AreAsAccurateAsFloat32) {
  const auto& [name, rows, inputs, outputs, between] = std::get<0>(GetParam());
  const Answer got = answer();
  const auto at = [](const Numbers& numbers, std::int64_t row, std::int64_t columns, std::int64_t column) {
    return numbers[static_cast<std::size_t>(row * columns + column)];
  };
  for (std::size_t p = 0; p < outputs.size(); ++p) {
    const std::string projection = " of projection " + std::to_string(p);
    for (std::int64_t i = 0; i < rows * outputs[p]; i += step) {
      Sum want;
      for (std::int64_t k = 0; k < inputs; ++k)
        want.add(at(x_, i / outputs[p], inputs, k), at(weights_[p], i % outputs[p], inputs, k));
      expect_close(at(got.results[p], 0, 0, i), want, "result " + std::to_string(i) + projection);
    }
    for (std::int64_t i = 0; i < outputs[p] * inputs; i += step) {
      Sum want{1, 1};
      for (std::int64_t k = 0; k < rows; ++k)
        want.add(at(gradients_[p], k, outputs[p], i / inputs), at(x_, k, inputs, i % inputs));
      expect_close(at(got.dweights[p], 0, 0, i), want, "gradient of weight " + std::to_string(i) + projection);
    }
  }
  for (std::int64_t i = 0; i < rows * inputs; i += step) {
    Sum want{1, 1};
    for (std::size_t p = 0; p < outputs.size(); ++p)
      for (std::int64_t k = 0; k < outputs[p]; ++k)
        want.add(at(gradients_[p], i / inputs, outputs[p], k), at(weights_[p], k, inputs, i % inputs));
    expect_close(at(got.dx, 0, 0, i), want, "gradient of input " + std::to_string(i));
  }
}

TEST_P(SplitProjections, RepeatTheirBits) { EXPECT_EQ(answer(), answer()); }

// Whole squares of 64 and others, one and several results, rows apart, and a width that no pair of stores fits.
INSTANTIATE_TEST_SUITE_P(
    All, SplitProjections,
    ::testing::Combine(::testing::Values(ProjectionCase{"three", 16384, 448, {448, 448, 448}},
                                         ProjectionCase{"awkward", 16500, 388, {418, 64, 130}},
                                         ProjectionCase{"apart", 17001, 260, {1934}, 2},
                                         ProjectionCase{"narrow", 40000, 64, {1000}, 8},
                                         ProjectionCase{"wide", 8200, 1100, {520}},
                                         ProjectionCase{"head", 640, 448, {9000}},  // whose gradient has few tiles
                                         ProjectionCase{"odd", 16384, 448, {335}, 1}),
                       both_paths),
    [](const auto& instance) { return std::get<0>(instance.param).name + suffix_of(std::get<1>(instance.param)); });

}  // namespace
}  // namespace afterglow::testing
