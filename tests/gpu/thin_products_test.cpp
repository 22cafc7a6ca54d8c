// Products of a tall matrix in which one extent is a few numbers, against sums in float64.
#include <gtest/gtest.h>

#include "tests/gpu/gpu_test.h"
#include "tests/support/host_values.h"
#include "tests/support/op_case.h"

namespace afterglow::testing {
namespace {

/// Columns of a and of c; c = a b^T, a b, or a^T b, where a has `rows` rows.
struct ThinProduct {
  const char* name;
  std::int64_t rows, inner, columns;
  bool transpose_a, transpose_b;
};

class ThinProducts : public OnGpu<::testing::TestWithParam<ThinProduct>> {
 protected:
  static Shape shape_of_b() {
    const auto& [name, rows, inner, columns, transpose_a, transpose_b] = GetParam();
    return transpose_a ? Shape{rows, columns} : transpose_b ? Shape{columns, inner} : Shape{inner, columns};
  }
  static std::vector<float> numbers(const Shape& shape, unsigned seed) { return random_floats(shape.elements(), seed); }
  static Values expected(bool accumulate) {
    const auto& [name, rows, inner, columns, transpose_a, transpose_b] = GetParam();
    const std::int64_t height = transpose_a ? inner : rows, depth = transpose_a ? rows : inner;
    const std::vector<float> a = numbers({rows, inner}, 1), b = numbers(shape_of_b(), 2),
                             c = numbers({height, columns}, 3);
    Values want(c.begin(), c.end());
    for (std::int64_t i = 0; i < height; ++i)
      for (std::int64_t j = 0; j < columns; ++j) {
        double& sum = want[static_cast<std::size_t>(i * columns + j)];
        if (!accumulate) sum = 0;
        for (std::int64_t k = 0; k < depth; ++k)
          sum += static_cast<double>(a[static_cast<std::size_t>(transpose_a ? k * inner + i : i * inner + k)]) *
                 b[static_cast<std::size_t>(transpose_b ? j * inner + k : k * columns + j)];
      }
    return want;
  }
  /// As the gradient of a projection's weight or input, as its result, or plainly.
  std::vector<float> product(Precision precision, bool accumulate, bool as_projection) {
    const auto& [name, rows, inner, columns, transpose_a, transpose_b] = GetParam();
    const Shape shape_of_c{transpose_a ? inner : rows, columns};
    HostValues host(*cuda_);
    const Tensor a = host.f32({rows, inner}, numbers({rows, inner}, 1)),
                 b = host.f32(shape_of_b(), numbers(shape_of_b(), 2)), c = host.f32(shape_of_c, numbers(shape_of_c, 3));
    cuda_->set_precision(precision);
    const Grad to{c, accumulate};
    if (!as_projection) {
      cuda_->gemm(transpose_a, transpose_b, 1.0, a, b, accumulate ? 1.0 : 0.0, c);
    } else if (transpose_a) {
      cuda_->linear_gradients({&a, 1}, b, {&to, 1}, {});
    } else if (transpose_b) {
      cuda_->linear_forward_many(a, {&b, 1}, {}, {&c, 1}, {});
    } else {
      cuda_->gemm_sum({&a, 1}, {&b, 1}, to);
    }
    cuda_->set_precision(Precision::fp32);
    return host.read<float>(c);
  }
};

TEST_P(ThinProducts, AreThoseOfFloat32InEveryPrecision) {
  for (const bool accumulate : {false, true}) {
    const Values want = expected(accumulate);
    const std::vector<float> exact = product(Precision::fp32, accumulate, false);
    EXPECT_LT(relative_error(Values(exact.begin(), exact.end()), want), 1e-6);
    EXPECT_EQ(product(Precision::tf32, accumulate, false), exact);
    EXPECT_EQ(product(Precision::bf16, accumulate, false), exact);
  }
}

TEST_P(ThinProducts, AreThoseOfProjections) {
  EXPECT_EQ(product(Precision::fp32, false, true), product(Precision::fp32, false, false));
  if (GetParam().transpose_a || !GetParam().transpose_b) {
    EXPECT_EQ(product(Precision::tf32, true, true), product(Precision::tf32, true, false));
  }
}

// Few outputs, few inputs, and the gradients of weights of both; rows that are no multiple of what a block takes.
INSTANTIATE_TEST_SUITE_P(All, ThinProducts,
                         ::testing::Values(ThinProduct{"outputs_7", 4099, 448, 7, false, true},
                                           ThinProduct{"outputs_16", 5000, 132, 16, false, true},
                                           ThinProduct{"outputs_1", 4096, 1024, 1, false, false},
                                           ThinProduct{"inputs_16", 4101, 16, 520, false, true},
                                           ThinProduct{"inputs_7", 70001, 7, 36, false, false},
                                           ThinProduct{"gradient_of_7", 9001, 7, 448, true, false},
                                           ThinProduct{"gradient_from_16", 4097, 640, 16, true, false},
                                           ThinProduct{"gradient_wide", 4200, 3, 4096, true, false}),
                         [](const auto& instance) { return std::string(instance.param.name); });

/// Outputs of two projections of one input.
struct ThinPair {
  std::int64_t rows, inputs, first, second;
};

class ThinPairs : public OnGpu<::testing::TestWithParam<ThinPair>> {
 protected:
  /// What one call leaves for both, or one for each: both results, the gradient of the input, those of the weights.
  std::vector<Values> numbers(Precision precision, bool together) {
    const auto& [rows, inputs, first, second] = GetParam();
    HostValues host(*cuda_);
    const auto filled = [&](const Shape& shape, unsigned seed) {
      return host.f32(shape, random_floats(shape.elements(), seed));
    };
    const Tensor x = filled({rows, inputs}, 1), w[] = {filled({first, inputs}, 2), filled({second, inputs}, 3)};
    const Tensor above[] = {filled({rows, first}, 4), filled({rows, second}, 5)};
    const Tensor y[] = {filled({rows, first}, 6), filled({rows, second}, 7)}, dx = filled({rows, inputs}, 8);
    const Grad dw[] = {{filled({first, inputs}, 9), true}, {filled({second, inputs}, 10), false}};
    cuda_->set_precision(precision);
    const std::size_t step = together ? 2 : 1;
    for (std::size_t i = 0; i < 2; i += step) {
      cuda_->linear_forward_many(x, {w + i, step}, {}, {y + i, step}, {});
      cuda_->gemm_sum({above + i, step}, {w + i, step}, {dx, true});
      cuda_->linear_gradients({above + i, step}, x, {dw + i, step}, {});
    }
    cuda_->set_precision(Precision::fp32);
    std::vector<Values> all;
    for (const Tensor& tensor : {y[0], y[1], dx, dw[0].tensor, dw[1].tensor}) {
      const std::vector<float> read = host.read<float>(tensor);
      all.emplace_back(read.begin(), read.end());
    }
    return all;
  }
};

TEST_P(ThinPairs, AreTheirProjectionsAlone) {
  const std::vector<Values> alone = numbers(Precision::fp32, false), together = numbers(Precision::fp32, true);
  for (std::size_t i = 0; i < alone.size(); ++i) EXPECT_LT(relative_error(together[i], alone[i]), 1e-6) << i;
  EXPECT_EQ(numbers(Precision::tf32, true), together);
}

INSTANTIATE_TEST_SUITE_P(All, ThinPairs,
                         ::testing::Values(ThinPair{4099, 448, 7, 7}, ThinPair{5000, 132, 3, 13},
                                           ThinPair{4096, 64, 8, 8}, ThinPair{4101, 36, 1, 2}));

}  // namespace
}  // namespace afterglow::testing
