// Memory, transfers, captured graphs, precision and errors of the CUDA back end.
#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <tuple>

#include "core/autograd/tape.h"
#include "core/backend/arena.h"
#include "core/io/error.h"
#include "core/ops/ops.h"
#include "tests/gpu/gpu_test.h"
#include "tests/support/host_values.h"
#include "tests/support/op_case.h"

namespace afterglow::testing {
namespace {

using ::testing::HasSubstr;

double relative(const std::vector<float>& got, const std::vector<float>& want) {
  return relative_error(Values(got.begin(), got.end()), Values(want.begin(), want.end()));
}

TEST(CudaSystemTest, SaysWhatThereIsOrWhyNot) {
  const CudaSystem system = cuda_devices();
  EXPECT_FALSE(system.toolkit.empty());
  if (system.devices.empty()) {
    EXPECT_THAT(system.why_none, HasSubstr("driver"));
  } else {
    EXPECT_GT(system.devices[0].memory, 0u);
    EXPECT_FALSE(system.driver.empty());
  }
}

TEST(CudaSystemTest, RefusesAGpuThatIsNotThere) {
  std::string reason;
  EXPECT_EQ(make_cuda_backend(1000, &reason), nullptr);
  EXPECT_FALSE(reason.empty());
  EXPECT_EQ(make_cuda_backend(-1, &reason), nullptr);
  EXPECT_EQ(make_cuda_backend(-1, nullptr), nullptr);
}

TEST(CudaSystemTest, TheCpuHasNoPrecisionToChoose) {
  const std::unique_ptr<Backend> cpu = make_cpu_backend(1);
  EXPECT_FALSE(cpu->set_precision(Precision::tf32));
  EXPECT_EQ(cpu->precision(), Precision::fp32);
}

using CudaBackendTest = GpuTest;

class CudaPaths : public OnPath<::testing::TestWithParam<Path>> {
 protected:
  void SetUp() override {
    OnPath::SetUp();
    take(GetParam());
  }
};
INSTANTIATE_TEST_SUITE_P(All, CudaPaths, both_paths,
                         [](const auto& instance) { return "path" + suffix_of(instance.param); });

TEST_F(CudaBackendTest, CountsItsMemory) {
  const std::size_t before = cuda_->held_bytes();
  void* address = cuda_->allocate(12345);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(address) % 256, 0u);
  EXPECT_EQ(cuda_->held_bytes(), before + 12345);
  cuda_->release(address);
  EXPECT_EQ(cuda_->held_bytes(), before);
}

// What used a released block before comes to its end first.
TEST_F(CudaBackendTest, ReleasedMemoryServesWhoAsksForTheSameSize) {
  constexpr std::int64_t count = 1 << 22;
  const Tensor first = cuda_->allocate_zeros(count, DType::f32);
  for (int i = 0; i < 100; ++i) cuda_->fill(first, i);
  cuda_->release(first.data);
  const Tensor other = cuda_->allocate_zeros(count - 1, DType::f32), again = cuda_->allocate_zeros(count, DType::f32);
  EXPECT_NE(other.data, first.data);
  EXPECT_EQ(again.data, first.data);
  std::vector<float> values(count, 1.0f);
  cuda_->download(values.data(), again);
  EXPECT_EQ(values, std::vector<float>(count, 0.0f));
  cuda_->release(other.data);
  cuda_->release(again.data);
}

TEST_F(CudaBackendTest, ReleasedMemoryIsGivenBackBeforeMemoryIsShort) {
  const auto blocks_that_fit = [&](std::size_t bytes) {
    std::vector<void*> blocks;
    try {
      for (;;) blocks.push_back(cuda_->allocate(bytes));
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::out_of_memory);
    }
    for (void* const block : blocks) cuda_->release(block);
    return blocks.size();
  };
  constexpr std::size_t gibibyte = std::size_t{1} << 30;
  // Another process may take memory between the two counts; then both are taken again.
  bool is_given_back = false;
  for (int attempt = 0; attempt < 5 && !is_given_back; ++attempt) {
    const std::size_t whole = blocks_that_fit(gibibyte);
    EXPECT_GT(whole, 0u);
    is_given_back = blocks_that_fit(gibibyte - (std::size_t{1} << 21)) >= whole;
  }
  EXPECT_TRUE(is_given_back);
}

TEST_F(CudaBackendTest, SaysWhenMemoryIsShort) {
  try {
    cuda_->allocate(std::size_t{1} << 50);
    FAIL() << "a petabyte was handed out";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::out_of_memory);
    EXPECT_THAT(error.what(), HasSubstr("--device cpu"));
  }
  HostValues host(*cuda_);
  EXPECT_EQ(host.read<float>(host.f32({2}, {1, 2}))[1], 2.0f);  // and goes on working
}

TEST_F(CudaBackendTest, FillsAndCopiesStridedRows) {
  HostValues host(*cuda_);
  const Tensor wide = host.f32({3, 5}, std::vector<float>(15, 1.0f));
  cuda_->fill(wide.column_range(1, 2), 7.0);
  EXPECT_EQ(host.read<float>(wide), (std::vector<float>{1, 7, 7, 1, 1, 1, 7, 7, 1, 1, 1, 7, 7, 1, 1}));
  const Tensor narrow = host.f32({3, 2}, {1, 2, 3, 4, 5, 6});
  cuda_->copy(wide.column_range(3, 2), narrow);
  EXPECT_EQ(host.read<float>(wide)[8], 3.0f);
  cuda_->accumulate(narrow, {wide.column_range(1, 2), true});
  EXPECT_EQ(host.read<float>(wide)[12], 13.0f);
  cuda_->accumulate(narrow, {wide.column_range(1, 2), false});
  EXPECT_EQ(host.read<float>(wide)[12], 6.0f);
}

TEST_F(CudaBackendTest, FindsTheFirstNumberThatIsNotFinite) {
  HostValues host(*cuda_);
  std::vector<float> values(100'003, 1.0f);
  EXPECT_EQ(cuda_->first_non_finite(host.f32({100'003}, values)), -1);
  values[99'999] = std::numeric_limits<float>::infinity();
  values[70'001] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(cuda_->first_non_finite(host.f32({100'003}, values)), 70'001);
  EXPECT_EQ(cuda_->first_non_finite(host.i32({2}, {1, 2})), -1);
}

/// Relative error of a product of n x n matrices in each precision.
struct ErrorOfPrecisions {
  double fp32, tf32, bf16;
};
ErrorOfPrecisions product_errors(Backend& cuda, std::int64_t n) {
  HostValues host(cuda);
  const std::vector<float> a = random_floats(n * n, 1), b = random_floats(n * n, 2);
  const Tensor left = host.f32({n, n}, a), right = host.f32({n, n}, b);
  const Tensor out = host.f32({n, n}, std::vector<float>(n * n, 0.0f));
  std::vector<float> want(n * n);
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (std::int64_t k = 0; k < n; ++k) sum += static_cast<double>(a[i * n + k]) * b[k * n + j];
      want[i * n + j] = static_cast<float>(sum);
    }
  const auto error = [&](Precision precision) {
    EXPECT_TRUE(cuda.set_precision(precision));
    EXPECT_EQ(cuda.precision(), precision);
    cuda.gemm(false, false, 1.0, left, right, 0.0, out);
    cuda.set_precision(Precision::fp32);
    return relative(host.read<float>(out), want);
  };
  return {error(Precision::fp32), error(Precision::tf32), error(Precision::bf16)};
}

TEST_F(CudaBackendTest, PrecisionOrdersTheErrors) {
  const ErrorOfPrecisions error = product_errors(*cuda_, 448);
  EXPECT_LT(error.fp32, 1e-6);
  EXPECT_LT(error.tf32, 2e-3);
  EXPECT_LT(error.bf16, 1e-2);
  EXPECT_LT(error.fp32, error.tf32);
  EXPECT_LT(error.tf32, error.bf16);
}

TEST_F(CudaBackendTest, SmallProductsInBf16LoseNoMoreThanInTf32) {
  const ErrorOfPrecisions error = product_errors(*cuda_, 130);
  EXPECT_LT(error.fp32, 1e-6);
  EXPECT_LT(error.fp32, error.tf32);
  EXPECT_LT(error.tf32, 2e-3);
  EXPECT_EQ(error.bf16, error.tf32);
}

// Sizes that the tensor cores multiply, with ragged edges: rows, columns, depth, which operand is transposed.
struct LargeProduct {
  std::int64_t rows, columns, depth;
  bool transpose_a, transpose_b;
};

class CudaLargeProducts : public OnPath<::testing::TestWithParam<std::tuple<LargeProduct, Path>>> {
 protected:
  void SetUp() override {
    OnPath::SetUp();
    if (cuda_ == nullptr) return;
    const auto [rows, columns, depth, transpose_a, transpose_b] = size();
    a_ = random_floats(rows * depth, 1);
    b_ = random_floats(columns * depth, 2);
    c_ = random_floats(rows * columns, 3);
    for (std::int64_t i = 0; i < rows; i += 37) {
      for (std::int64_t j = 0; j < columns; ++j) {
        double sum = 0;
        for (std::int64_t k = 0; k < depth; ++k)
          sum += static_cast<double>(a_[transpose_a ? k * rows + i : i * depth + k]) *
                 b_[transpose_b ? j * depth + k : k * columns + j];
        want_.push_back(2.0 * sum - c_[i * columns + j]);
      }
    }
    take(std::get<Path>(GetParam()));
  }
  static const LargeProduct& size() { return std::get<LargeProduct>(GetParam()); }
  std::vector<float> product(Precision precision) {
    const auto [rows, columns, depth, transpose_a, transpose_b] = size();
    HostValues host(*cuda_);
    const Tensor a = host.f32(transpose_a ? Shape{depth, rows} : Shape{rows, depth}, a_);
    const Tensor b = host.f32(transpose_b ? Shape{columns, depth} : Shape{depth, columns}, b_);
    const Tensor c = host.f32({rows, columns}, c_);
    cuda_->set_precision(precision);
    cuda_->gemm(transpose_a, transpose_b, 2.0, a, b, -1.0, c);
    cuda_->set_precision(Precision::fp32);
    return host.read<float>(c);
  }
  double error(const std::vector<float>& got) const {
    const std::int64_t columns = size().columns;
    Values seen;
    for (std::int64_t i = 0; i < size().rows; i += 37)
      seen.insert(seen.end(), got.begin() + i * columns, got.begin() + (i + 1) * columns);
    return relative_error(seen, want_);
  }

  std::vector<float> a_, b_, c_;
  Values want_;
};

TEST_P(CudaLargeProducts, AreAsExactAsFloat32) {
  const std::vector<float> got = product(Precision::fp32);
  EXPECT_LT(error(got), 1e-6);
  EXPECT_EQ(product(Precision::fp32), got);
}

TEST_P(CudaLargeProducts, AreRoundedInTf32) {
  const double tf32 = error(product(Precision::tf32));
  EXPECT_LT(tf32, 2e-3);
  EXPECT_GT(tf32, 1e-5);
}

INSTANTIATE_TEST_SUITE_P(All, CudaLargeProducts,
                         ::testing::Combine(::testing::Values(LargeProduct{1900, 364, 412, false, true},
                                                              LargeProduct{1900, 364, 412, false, false},
                                                              LargeProduct{332, 220, 4100, true, false},
                                                              LargeProduct{12700, 116, 196, false, true},
                                                              LargeProduct{12700, 116, 196, false, false}),
                                            both_paths),
                         [](const auto& instance) {
                           const LargeProduct& size = std::get<LargeProduct>(instance.param);
                           return std::string(size.transpose_a   ? "aT_b"
                                              : size.transpose_b ? "a_bT"
                                                                 : "a_b") +
                                  "_" + std::to_string(size.rows) + suffix_of(std::get<Path>(instance.param));
                         });

// Three projections of one input with their biases, its gradient and those of the weights: each one launch, against
// products one by one.
TEST_P(CudaPaths, GroupsOfLargeProductsAreTheirProducts) {
  constexpr std::int64_t rows = 14000, inputs = 220, outputs[] = {120, 116, 124};
  HostValues host(*cuda_);
  const auto random = [&](std::int64_t height, std::int64_t width, unsigned seed) {
    return host.f32({height, width}, random_floats(height * width, seed));
  };
  const auto zeros = [&](std::int64_t height, std::int64_t width) {
    return host.f32({height, width}, std::vector<float>(static_cast<std::size_t>(height * width), 0.0f));
  };
  const Tensor x = random(rows, inputs, 1);
  std::vector<Tensor> weights, biases, wanted, with_bias, results, wanted_gradients, gradients;
  std::vector<Grad> places;
  const Tensor wanted_input = random(rows, inputs, 9), input = host.f32({rows, inputs}, host.read<float>(wanted_input));
  for (int i = 0; i < 3; ++i) {
    weights.push_back(random(outputs[i], inputs, 2 + static_cast<unsigned>(i)));
    biases.push_back(host.f32({outputs[i]}, random_floats(outputs[i], 5 + static_cast<unsigned>(i))));
    wanted.push_back(zeros(rows, outputs[i]));
    with_bias.push_back(zeros(rows, outputs[i]));
    results.push_back(zeros(rows, outputs[i]));
    wanted_gradients.push_back(zeros(outputs[i], inputs));
    gradients.push_back(zeros(outputs[i], inputs));
    places.push_back({gradients.back(), false});
    cuda_->gemm(false, true, 1.0, x, weights[i], 0.0, wanted[i]);
    cuda_->add_bias(wanted[i], biases[i], with_bias[i]);
    cuda_->gemm(false, false, 1.0, wanted[i], weights[i], 1.0, wanted_input);
    cuda_->gemm(true, false, 1.0, wanted[i], x, 0.0, wanted_gradients[i]);
  }
  for (const Precision precision : {Precision::fp32, Precision::tf32}) {
    const double tolerance = precision == Precision::fp32 ? 2e-6 : 2e-3;
    cuda_->copy(input, host.f32({rows, inputs}, random_floats(rows * inputs, 9)));
    EXPECT_TRUE(cuda_->set_precision(precision));
    cuda_->linear_forward_many(x, weights, biases, results, {});
    cuda_->gemm_sum(wanted, weights, {input, true});
    cuda_->linear_gradients(wanted, x, places, {});
    cuda_->set_precision(Precision::fp32);
    EXPECT_LT(relative(host.read<float>(input), host.read<float>(wanted_input)), tolerance);
    for (int i = 0; i < 3; ++i) {
      EXPECT_LT(relative(host.read<float>(results[i]), host.read<float>(with_bias[i])), tolerance);
      EXPECT_LT(relative(host.read<float>(gradients[i]), host.read<float>(wanted_gradients[i])), tolerance);
    }
  }
}

// Projections and their backward pass, large enough that tf32 and bf16 round operands first: numbers far from one, dx
// added to what is there, one gradient that is not wanted, with and without what the forward pass keeps.
class CudaProjections : public CudaBackendTest {
 protected:
  static constexpr std::int64_t rows = 6000, inputs = 400, outputs[] = {128, 200, 136};
  struct Answer {
    std::vector<float> results[3], dx, dweights[3], dbiases[3];
  };
  void SetUp() override {
    CudaBackendTest::SetUp();
    if (cuda_ == nullptr) return;
    host_ = std::make_unique<HostValues>(*cuda_);
    x_ = random(rows, inputs, 1, 1e12f);
    for (unsigned i = 0; i < 3; ++i) {
      weights_.push_back(random(outputs[i], inputs, 2 + i, 1e-3f));
      biases_.push_back(random(1, outputs[i], 5 + i, 1e9f).reshaped({outputs[i]}));
      dresults_.push_back(random(rows, outputs[i], 8 + i, i == 0 ? 1e-20f : 1e-18f));
    }
  }
  Tensor random(std::int64_t height, std::int64_t width, unsigned seed, float size) {
    std::vector<float> values = random_floats(height * width, seed);
    for (float& value : values) value *= size;
    return host_->f32({height, width}, values);
  }
  Tensor with_one(const Tensor& matrix, std::int64_t row, std::int64_t column, float value) {
    std::vector<float> values = host_->read<float>(matrix);
    values[static_cast<std::size_t>(row * matrix.columns() + column)] = value;
    return host_->f32(matrix.shape, values);
  }
  Grad zeros(const Shape& shape) {
    return {host_->f32(shape, std::vector<float>(static_cast<std::size_t>(shape.elements()), 0.0f)), false};
  }
  Answer answer(Precision precision, bool keeping) {
    std::vector<Tensor> results;
    std::vector<Grad> dweights, dbiases;
    for (std::int64_t width : outputs) {
      results.push_back(zeros({rows, width}).tensor);
      dweights.push_back(zeros({width, inputs}));
      dbiases.push_back(zeros({width}));
    }
    const Tensor unwanted = std::exchange(dweights[1].tensor, Tensor{});
    const Grad dx{random(rows, inputs, 11, 1e-21f), true};
    cuda_->set_precision(precision);
    const std::int64_t kept_numbers = cuda_->plan(ProjectionCall{x_, weights_}).kept;
    EXPECT_EQ(kept_numbers > 0, precision != Precision::fp32);
    Tensor kept;
    if (keeping) kept = zeros({kept_numbers}).tensor;
    cuda_->linear_forward_many(x_, weights_, biases_, results, {kept});
    cuda_->linear_backward({dresults_, weights_, x_, kept, dweights, dbiases, dx});
    cuda_->synchronize();
    cuda_->set_precision(Precision::fp32);
    Answer answer;
    answer.dx = host_->read<float>(dx.tensor);
    for (int i = 0; i < 3; ++i) {
      answer.results[i] = host_->read<float>(results[i]);
      answer.dweights[i] = host_->read<float>(i == 1 ? unwanted : dweights[i].tensor);
      answer.dbiases[i] = host_->read<float>(dbiases[i].tensor);
    }
    return answer;
  }

  std::unique_ptr<HostValues> host_;
  Tensor x_;
  std::vector<Tensor> weights_, biases_, dresults_;
};

// Halves that were scaled have eleven bits, bfloat16 has eight.
TEST_F(CudaProjections, HaveTheBitsOfTheirPrecision) {
  const Answer want = answer(Precision::fp32, false);
  for (const auto& [precision, most] : {std::pair{Precision::tf32, 1e-3}, std::pair{Precision::bf16, 8e-3}}) {
    const Answer got = answer(precision, true);
    const auto expect_rounded = [most = most](const std::vector<float>& ours, const std::vector<float>& theirs) {
      EXPECT_LT(relative(ours, theirs), most);
      EXPECT_GT(relative(ours, theirs), most / 100);
    };
    expect_rounded(got.dx, want.dx);
    for (int i = 0; i < 3; ++i) {
      expect_rounded(got.results[i], want.results[i]);
      if (i != 1) expect_rounded(got.dweights[i], want.dweights[i]);
      EXPECT_LT(relative(got.dbiases[i], want.dbiases[i]), 1e-5);
    }
    EXPECT_EQ(got.dweights[1], std::vector<float>(static_cast<std::size_t>(outputs[1] * inputs), 0.0f));
  }
}

TEST_F(CudaProjections, RoundedRepeatTheirBits) {
  for (const Precision precision : {Precision::tf32, Precision::bf16}) {
    const Answer once = answer(precision, true);
    for (const bool keeping : {true, false}) {
      const Answer again = answer(precision, keeping);
      EXPECT_EQ(again.dx, once.dx);
      for (int i = 0; i < 3; ++i) {
        EXPECT_EQ(again.results[i], once.results[i]);
        EXPECT_EQ(again.dweights[i], once.dweights[i]);
      }
    }
  }
}

// A few numbers tell the scale of all; one that is far larger must not be lost, nor its neighbours.
TEST_F(CudaProjections, KeepNumbersThatNoSampleForetells) {
  x_ = with_one(x_, 1234, 56, 3e18f);
  dresults_[1] = with_one(dresults_[1], 4321, 65, 2e-12f);
  const Answer want = answer(Precision::fp32, false), got = answer(Precision::tf32, true);
  const auto relative_at = [](const std::vector<float>& ours, const std::vector<float>& theirs, std::size_t row,
                              std::size_t width) {
    const auto of = [&](const std::vector<float>& all) {
      return std::vector<float>(all.begin() + row * width, all.begin() + (row + 1) * width);
    };
    return relative(of(ours), of(theirs));
  };
  for (const std::size_t row : {0u, 1234u, 4321u}) {
    EXPECT_LT(relative_at(got.dx, want.dx, row, inputs), 1e-3) << row;
    for (int i = 0; i < 3; ++i) EXPECT_LT(relative_at(got.results[i], want.results[i], row, outputs[i]), 1e-3) << row;
  }
  EXPECT_LT(relative(got.dweights[0], want.dweights[0]), 1e-3);
  EXPECT_EQ(answer(Precision::tf32, false).dx, got.dx);
}

// A width that is no whole number of vectors, as Mamba's: the rows of results and of their gradients are longer then,
// and the numbers after them, here NaN, must not reach any answer.
class CudaOddProjections : public CudaBackendTest {
 protected:
  static constexpr std::int64_t rows = 7000, inputs = 400, part = 199;
  struct Answer {
    std::vector<float> sum, dx, dweight, dbias;
    std::int64_t row_stride;
  };
  Answer answer(Precision precision, bool as_it_likes) {
    HostValues host(*cuda_);
    cuda_->set_precision(precision);
    Arena arena(*cuda_);
    arena.set_poison(true);
    Tape tape(*cuda_, arena);
    tape.begin(true);
    const auto random = [&](const Shape& shape, unsigned seed) {
      return tape.input(host.f32(shape, random_floats(shape.elements(), seed)));
    };
    const Var x = random({rows, inputs}, 1), weight = random({2 * part, inputs}, 2), bias = random({2 * part}, 3);
    const std::int64_t widths[] = {part, part};
    Var parts[2];
    if (as_it_likes) {
      linear_columns(tape, x, weight, bias, widths, parts);
    } else {
      tape.split_columns(linear(tape, x, weight, bias), widths, parts);
    }
    const Var sum = add(tape, contiguous(tape, parts[0]), scale(tape, contiguous(tape, parts[1]), 0.5));
    tape.backward(sum, host.f32({rows, part}, random_floats(rows * part, 4)));
    Answer answer{host.read<float>(sum.value), host.read<float>(tape.gradient_of(x)),
                  host.read<float>(tape.gradient_of(weight)), host.read<float>(tape.gradient_of(bias)),
                  parts[0].value.row_stride};
    cuda_->set_precision(Precision::fp32);
    return answer;
  }
};

TEST_F(CudaOddProjections, AreThoseOfRowsSideBySide) {
  const Answer want = answer(Precision::fp32, false);
  EXPECT_EQ(want.row_stride, 2 * part);
  for (const auto& [precision, most] :
       {std::pair{Precision::fp32, 2e-6}, std::pair{Precision::tf32, 1e-3}, std::pair{Precision::bf16, 8e-3}}) {
    const Answer got = answer(precision, true);
    EXPECT_EQ(got.row_stride, 2 * part + 2);
    EXPECT_LT(relative(got.sum, want.sum), most);
    EXPECT_LT(relative(got.dx, want.dx), most);
    EXPECT_LT(relative(got.dweight, want.dweight), most);
    EXPECT_LT(relative(got.dbias, want.dbias), 1e-5);
  }
}

// What a norm, or in bf16 a Koopman MLP, leaves rounded for the projections after it serves both passes.
TEST_F(CudaBackendTest, ProjectsWhatWasLeftRounded) {
  constexpr std::int64_t rows = 2600, columns = 512, outputs = 520;
  struct Answer {
    std::vector<float> y, dx, dweight, dnorm;
  };
  HostValues host(*cuda_);
  const auto answer = [&](Precision precision, int kind, bool is_unfused) {
    cuda_->set_precision(precision);
    Arena arena(*cuda_);
    arena.set_poison(true);
    Tape tape(*cuda_, arena);
    const TapeObserver observer(tape, {.form = is_unfused ? PassForm::unfused : PassForm::usual}, {});
    tape.begin(true);
    const auto random = [&](const Shape& shape, unsigned seed) {
      return tape.input(host.f32(shape, random_floats(shape.elements(), seed)));
    };
    const Var x = random({rows, columns}, 1), other = random({rows, columns}, 2), norm = random({columns}, 3),
              weight = random({outputs, columns}, 4),
              half = tape.constant(host.f32({columns / 2}, std::vector<float>(columns / 2, 0.5f)));
    const Var between = kind == 0   ? rms_norm(tape, x, norm, 1e-5)
                        : kind == 1 ? add_rms_norm(tape, x, other, norm, 1e-5).normed
                        : kind == 2 ? gated_rms_norm(tape, x, other, norm, 1e-5)
                                    : koopman_modes(tape, multiply(tape, x, other), half, half, {});
    const bool has_bound = kind < 3 ? precision != Precision::fp32 : precision == Precision::bf16;
    EXPECT_EQ(between.rounded.defined(), has_bound && !is_unfused);
    const Var y = linear(tape, between, weight);
    tape.backward(y, host.f32({rows, outputs}, random_floats(rows * outputs, 5)));
    Answer answer{host.read<float>(y.value),
                  host.read<float>(tape.gradient_of(x)),
                  host.read<float>(tape.gradient_of(weight)),
                  {}};
    if (kind < 3) answer.dnorm = host.read<float>(tape.gradient_of(norm));
    cuda_->set_precision(Precision::fp32);
    return answer;
  };
  for (const int kind : {0, 1, 2, 3}) {
    const Answer want = answer(Precision::fp32, kind, false);
    for (const auto& [precision, most] : {std::pair{Precision::tf32, 1e-3}, std::pair{Precision::bf16, 8e-3}}) {
      for (const bool is_unfused : {false, true}) {
        const Answer got = answer(precision, kind, is_unfused);
        EXPECT_LT(relative(got.y, want.y), most) << kind;
        EXPECT_GT(relative(got.y, want.y), most / 100) << kind;
        EXPECT_LT(relative(got.dx, want.dx), 2 * most) << kind;
        EXPECT_LT(relative(got.dweight, want.dweight), most) << kind;
        if (kind < 3) {
          EXPECT_LT(relative(got.dnorm, want.dnorm), 2 * most) << kind;
        }
      }
    }
  }
}

// A small model's forward and backward pass: recorded once, then repeated with other inputs.
class CudaGraphs : public GpuTest {
 protected:
  static constexpr std::int64_t batch = 2, length = 37, width = 24;
  void SetUp() override {
    GpuTest::SetUp();
    if (cuda_ == nullptr) return;
    host_ = std::make_unique<HostValues>(*cuda_);
    arena_ = std::make_unique<Arena>(*cuda_);
    tape_ = std::make_unique<Tape>(*cuda_, *arena_);
    x_ = host_->f32({batch, length, width}, random_floats(batch * length * width, 3));
    for (Tensor& weight : weights_) weight = host_->f32({width, width}, random_floats(width * width, 4));
    heads_ = host_->f32({2}, {1.5f, 0.5f});
    result_ = host_->f32({batch, length, width}, std::vector<float>(batch * length * width, 0.0f));
  }
  void TearDown() override {
    tape_.reset();
    arena_.reset();
    host_.reset();
  }
  /// Projections, the SKA core, attention; dx ends in result_.
  void step() {
    tape_->begin(true);
    const Var x = tape_->input(x_);
    const auto heads = [&](const Tensor& weight) {
      return tape_->reshape(linear(*tape_, x, tape_->input(weight)), {batch, length, 2, width / 2});
    };
    const Var q = heads(weights_[0]), k = heads(weights_[1]), v = heads(weights_[2]);
    RidgeConfig config;
    const Var eta = tape_->input(heads_);
    const Var y =
        add(*tape_, ridge_readout(*tape_, config, {k, q, v, eta, eta, {}}), causal_attention(*tape_, q, k, v, 0.3));
    tape_->backward(y, y.value);
    cuda_->copy(result_, tape_->gradient_of(x));
  }
  std::vector<float> read() const { return host_->read<float>(result_); }

  std::unique_ptr<HostValues> host_;
  std::unique_ptr<Arena> arena_;
  std::unique_ptr<Tape> tape_;
  Tensor x_, weights_[3], heads_, result_;
};

TEST_F(CudaGraphs, RepeatTheBitsOfTheEagerRun) {
  step();
  const std::vector<float> eager = read();
  EXPECT_TRUE(std::isfinite(eager[0]));
  const std::unique_ptr<DeviceGraph> graph = cuda_->capture([&] { step(); });
  EXPECT_EQ(read(), eager);
  cuda_->fill(result_, 0.0);
  graph->run();
  graph->run();
  EXPECT_EQ(read(), eager);
}

TEST_F(CudaGraphs, ReadTheirInputsAfresh) {
  const std::unique_ptr<DeviceGraph> graph = cuda_->capture([&] { step(); });
  const std::vector<float> before = read();
  cuda_->upload(x_, random_floats(batch * length * width, 5).data());
  graph->run();
  const std::vector<float> replayed = read();
  EXPECT_NE(replayed, before);
  step();
  EXPECT_EQ(read(), replayed);
}

TEST_F(CudaGraphs, CopyToAndFromPinnedMemory) {
  auto* pinned = static_cast<float*>(cuda_->allocate_host(2 * sizeof(float)));
  const Tensor number = host_->f32({1}, {0});
  pinned[0] = 3;
  const std::unique_ptr<DeviceGraph> graph = cuda_->capture([&] {
    cuda_->queue_upload(number, pinned);
    cuda_->scale(number, 2.0, {number, false});
    cuda_->queue_download(pinned + 1, number);
  });
  pinned[0] = 5;
  graph->run();
  cuda_->synchronize();
  EXPECT_EQ(pinned[1], 10.0f);
  cuda_->release_host(pinned);
}

/// Arrays of all lengths, so many that they do not go together, and some that begin between words; after each, bytes
/// stay what they are.
TEST_F(CudaBackendTest, CopiesArraysOfAllLengths) {
  const std::size_t lengths[] = {0, 1, 2, 3, 4, 5, 7, 8, 1023, 1024, 65535, 65536, 65537, 200001};
  constexpr std::size_t guard = 8;
  std::vector<Tensor> arrays;
  std::vector<char*> sent, received;
  std::vector<Transfer> up, down;
  for (const std::size_t length : lengths) {
    const auto size = static_cast<std::int64_t>(length + guard);
    const std::size_t from = length % 2;  // an odd one begins after its memory's beginning
    arrays.emplace_back(cuda_->allocate(length + guard), Shape{size}, DType::u8);
    cuda_->upload(arrays.back(), std::vector<char>(length + guard).data());
    for (auto* side : {&sent, &received})
      side->push_back(static_cast<char*>(cuda_->allocate_host(length + guard + from)) + from);
    for (std::size_t i = 0; i < length + guard; ++i) sent.back()[i] = static_cast<char>(7 * i + length);
    std::memset(received.back(), 1, length + guard);
    up.push_back({arrays.back().data, sent.back(), length});
    down.push_back({received.back(), arrays.back().data, length + guard / 2});
  }
  cuda_->queue_uploads(up);
  cuda_->queue_downloads(down);
  cuda_->synchronize();
  for (std::size_t a = 0; a < std::size(lengths); ++a) {
    const std::size_t length = lengths[a];
    for (std::size_t i = 0; i < length + guard; ++i) {
      const char want = i < length ? sent[a][i] : i < length + guard / 2 ? 0 : 1;
      ASSERT_EQ(received[a][i], want) << length << " bytes, byte " << i;
    }
    cuda_->release(arrays[a].data);
    for (char* host : {sent[a], received[a]}) cuda_->release_host(host - length % 2);
  }
}

/// Then pieces of gradients go another way, and the back end works on.
TEST_F(CudaBackendTest, MemoryThatCannotBeOpenedLeavesNoError) {
  MemoryKey made_up;
  made_up.fill(std::byte{7});
  EXPECT_EQ(cuda_->open_memory(made_up), nullptr);
  std::array<std::byte, 256> of_the_host{};
  EXPECT_EQ(cuda_->key_to(of_the_host.data()), MemoryKey{});
  HostValues host(*cuda_);
  const Tensor x = host.f32({2}, {1, 2});
  cuda_->scale(x, 3.0, {x, false});
  EXPECT_EQ(host.read<float>(x), (std::vector<float>{3, 6}));
}

/// A wait for an event returns what this run of the graph has computed up to it, not what the previous run left,
/// while the rest of the graph still runs.
TEST_F(CudaGraphs, MoveEventsWithEachRun) {
  constexpr int rounds = 400;
  constexpr std::int64_t many = std::int64_t{1} << 24;
  const Tensor number = host_->f32({1}, {0}), copied = host_->f32({1}, {0});
  const Tensor large(cuda_->allocate(many * sizeof(float)), {many}, DType::f32);
  auto* pinned = static_cast<float*>(cuda_->allocate_host(2 * sizeof(float)));
  const std::unique_ptr<DeviceEvent> event = cuda_->make_event();
  const auto work_long = [&] {
    for (int i = 0; i < rounds; ++i) cuda_->scale(large, 1.0, {large, false});
  };
  const auto run = [&] {
    cuda_->queue_upload(number, pinned);
    work_long();
    cuda_->scale(number, 2.0, {number, false});
    event->set();
    work_long();
    cuda_->scale(number, 0.0, {number, false});
  };
  pinned[0] = 1;
  event->wait();  // never set
  const auto read = [&] {
    const TransferStream transfers(*cuda_);
    event->wait();
    cuda_->add(number, number, copied);
    cuda_->download(pinned + 1, copied);
  };
  read();  // CUDA loads a kernel with its first launch, and waits for the GPU
  const std::unique_ptr<DeviceGraph> graph = cuda_->capture(run);
  for (int i = 0; i < 5; ++i) {
    cuda_->synchronize();
    pinned[0] = static_cast<float>(i + 1);
    graph->run();
    read();
    EXPECT_EQ(pinned[1], static_cast<float>(4 * (i + 1)));
  }
  cuda_->synchronize();
  cuda_->release_host(pinned);
  cuda_->release(large.data);
}

TEST_F(CudaGraphs, RefuseWorkThatWaits) {
  EXPECT_THROW(cuda_->capture([&] { cuda_->synchronize(); }), Error);
  step();  // and the back end goes on working
  EXPECT_TRUE(std::isfinite(read()[0]));
}

// One AdamW step on both back ends from the same numbers.
struct OptimiserRun {
  std::vector<float> weights, norms;
  std::int32_t step;
};

OptimiserRun optimise(Backend& backend, const std::vector<float>& gradients, int steps) {
  const auto n = static_cast<std::int64_t>(gradients.size());
  HostValues host(backend);
  AdamwTensors t;
  t.weights = host.f32({n}, random_floats(n, 8));
  t.gradients = host.f32({n}, gradients);
  t.first_moment = host.f32({n}, std::vector<float>(n, 0.0f));
  t.second_moment = host.f32({n}, std::vector<float>(n, 0.0f));
  std::vector<std::uint8_t> mask(n / parameter_block);
  for (std::size_t i = 0; i < mask.size(); ++i) mask[i] = i % 2;
  t.decay_mask = host.tensor({n / parameter_block}, DType::u8, mask);
  t.hyperparameters = host.f64({6}, {0.01, 0.9, 0.95, 1e-8, 0.1, 1.0});
  t.step = host.i32({1}, {0});
  t.gradient_norm = host.f32({1}, {0});
  const Tensor offsets = host.f64({4}, {0, 64, 64, static_cast<double>(n)}), norms = host.f32({3}, {0, 0, 0});
  for (int i = 0; i < steps; ++i) {
    backend.gradient_norms(t.gradients, offsets, norms, t.gradient_norm);
    backend.adamw(t);
  }
  OptimiserRun run{host.read<float>(t.weights), host.read<float>(norms), host.read<std::int32_t>(t.step)[0]};
  run.norms.push_back(host.read<float>(t.gradient_norm)[0]);
  return run;
}

TEST_F(CudaBackendTest, OptimisesLikeTheCpu) {
  const std::unique_ptr<Backend> cpu = make_cpu_backend(1);
  const std::vector<float> gradients = random_floats(64 * 1001, 9);
  const OptimiserRun want = optimise(*cpu, gradients, 5), got = optimise(*cuda_, gradients, 5);
  EXPECT_EQ(got.step, 5);
  EXPECT_LE(relative(got.weights, want.weights), 1e-6);
  EXPECT_LE(relative(got.norms, want.norms), 1e-6);
}

TEST_F(CudaBackendTest, LeavesWeightsAloneWhenGradientsAreNotFinite) {
  std::vector<float> gradients = random_floats(64 * 5, 9);
  gradients[100] = std::numeric_limits<float>::quiet_NaN();
  const OptimiserRun run = optimise(*cuda_, gradients, 2);
  EXPECT_EQ(run.step, 0);
  EXPECT_EQ(run.weights, random_floats(64 * 5, 8));
}

TEST_F(CudaBackendTest, ConvolvesPieceByPiece) {
  const std::int64_t length = 11, channels = 37;
  Arena arena(*cuda_);
  Tape tape(*cuda_, arena);
  HostValues host(*cuda_);
  const std::vector<float> x = random_floats(length * channels, 11);
  for (const std::int64_t taps : {1, 2, 4, 8}) {
    tape.begin(false);
    const Var weight = tape.constant(host.f32({channels, 1, taps}, random_floats(channels * taps, 12)));
    const Var bias = tape.constant(host.f32({channels}, random_floats(channels, 13)));
    const std::vector<float> whole =
        host.read<float>(causal_conv(tape, tape.constant(host.f32({1, length, channels}, x)), weight, bias).value);
    const Tensor history =
        host.f32({1, taps - 1, channels}, std::vector<float>(static_cast<std::size_t>((taps - 1) * channels + 1)));
    std::vector<float> pieces;
    for (std::int64_t begin = 0; begin < length;) {
      const std::int64_t count = std::min<std::int64_t>(begin == 2 ? 5 : 1, length - begin);
      const std::vector<float> part(x.begin() + begin * channels, x.begin() + (begin + count) * channels);
      const Var piece = tape.constant(host.f32({1, count, channels}, part));
      const std::vector<float> y = host.read<float>(causal_conv(tape, piece, weight, bias, history).value);
      pieces.insert(pieces.end(), y.begin(), y.end());
      begin += count;
    }
    EXPECT_EQ(pieces, whole) << taps << " taps";
  }
}

TEST_F(CudaBackendTest, ScansPieceByPiece) {
  const std::int64_t length = 101, heads = 2, width = 37, states = 24;
  Arena arena(*cuda_);
  Tape tape(*cuda_, arena);
  HostValues host(*cuda_);
  const std::vector<float> x = random_floats(length * heads * width, 21), B = random_floats(length * states, 22),
                           C = random_floats(length * states, 23);
  const auto scan = [&](std::int64_t begin, std::int64_t count, const Tensor& state, bool resume) {
    const auto part = [&](const std::vector<float>& all, std::int64_t columns) {
      return tape.constant(
          host.f32({1, count, columns}, {all.begin() + begin * columns, all.begin() + (begin + count) * columns}));
    };
    ScanVars in;
    in.x = part(x, heads * width);
    in.B = part(B, states);
    in.C = part(C, states);
    in.A_log = tape.constant(host.f32({heads}, {-3.0f, -1.0f}));
    in.heads = heads;
    return host.read<float>(ssd_scan(tape, in, state, resume).value);
  };
  tape.begin(false);
  const std::vector<float> whole = scan(0, length, {}, false);
  const Tensor state = host.f32({1, heads, width, states}, std::vector<float>(heads * width * states, 9.0f));
  std::vector<float> pieces = scan(0, 40, state, false);
  for (std::int64_t begin = 40; begin < length;) {
    const std::int64_t count = begin == 40 ? 33 : 1;
    const std::vector<float> y = scan(begin, count, state, true);
    pieces.insert(pieces.end(), y.begin(), y.end());
    begin += count;
  }
  EXPECT_EQ(pieces, whole);
}

// By chunks twice, the second time from a state, and by the recurrence from the state that this leaves.
constexpr std::int64_t scanned = 700, first_piece = 300, second_piece = 350;

template <class Scan>
void expect_pieces_of_the_whole(const Scan& scan, const Tensor& state, const std::string& what) {
  const std::vector<float> whole = scan(0, scanned, Tensor(), false);
  std::vector<float> pieces = scan(0, first_piece, state, false);
  const std::vector<float> second = scan(first_piece, second_piece, state, true);
  const std::int64_t last = first_piece + second_piece;
  const std::vector<float> rest = scan(last, scanned - last, state, true);
  pieces.insert(pieces.end(), second.begin(), second.end());
  pieces.insert(pieces.end(), rest.begin(), rest.end());
  EXPECT_LE(relative(pieces, whole), 1e-5) << what;
}

/// Tokens [begin, begin + count) of `all`, whose shape is [1,T,...].
Var tokens_of(Tape& tape, HostValues& host, const std::vector<float>& all, const Shape& shape, std::int64_t begin,
              std::int64_t count) {
  const std::int64_t columns = shape.elements() / shape[1];
  const Shape part = shape.rank() == 3 ? Shape{1, count, shape[2]} : Shape{1, count, shape[2], shape[3]};
  return tape.constant(host.f32(part, {all.begin() + begin * columns, all.begin() + (begin + count) * columns}));
}

TEST_F(CudaBackendTest, ScansByChunksGoOnFromTheirState) {
  const std::int64_t heads = 3, width = 40;
  for (const std::int64_t states : {64, 96, 128}) {
    Arena arena(*cuda_);
    Tape tape(*cuda_, arena);
    HostValues host(*cuda_);
    const Shape of_x{1, scanned, heads * width}, of_B{1, scanned, states};
    const std::vector<float> x = random_floats(of_x.elements(), 31), B = random_floats(of_B.elements(), 32),
                             C = random_floats(of_B.elements(), 33);
    const auto scan = [&](std::int64_t begin, std::int64_t count, const Tensor& state, bool resume) {
      ScanVars in;
      in.x = tokens_of(tape, host, x, of_x, begin, count);
      in.B = tokens_of(tape, host, B, of_B, begin, count);
      in.C = tokens_of(tape, host, C, of_B, begin, count);
      in.A_log = tape.constant(host.f32({heads}, {-3.0f, -1.0f, -4.0f}));
      in.heads = heads;
      return host.read<float>(ssd_scan(tape, in, state, resume).value);
    };
    tape.begin(false);
    const Tensor state = host.f32({1, heads, width, states}, random_floats(heads * width * states, 34));
    expect_pieces_of_the_whole(scan, state, std::to_string(states) + " states");
  }
}

// With a decay for each head or channel, heads that the chunks' kernels take whole and ones that come in pieces.
TEST_F(CudaBackendTest, DeltaRulesByChunksGoOnFromTheirState) {
  struct Rule {
    const char* name;
    bool corrects, has_channels;
  };
  const std::int64_t heads = 2;
  for (const Rule& rule : {Rule{"gated_deltanet", true, false}, Rule{"gla", false, true}, Rule{"kda", true, true}}) {
    for (const auto& [keys, width] : {std::pair{40, 24}, std::pair{64, 80}, std::pair{96, 80}, std::pair{128, 128}}) {
      Arena arena(*cuda_);
      Tape tape(*cuda_, arena);
      HostValues host(*cuda_);
      const Shape of_k{1, scanned, heads, keys}, of_v{1, scanned, heads, width}, of_head{1, scanned, heads},
          of_g = rule.has_channels ? of_k : of_head;
      const std::vector<float> q = random_floats(of_k.elements(), 41), v = random_floats(of_v.elements(), 42),
                               beta(static_cast<std::size_t>(of_head.elements()), 0.7f);
      std::vector<float> k = random_floats(of_k.elements(), 43), g = random_floats(of_g.elements(), 45);
      for (float& number : k) number /= std::sqrt(static_cast<float>(keys));  // about one long: the rule is stable
      for (float& number : g) number = 0.1f * number - 0.2f;
      const auto scan = [&](std::int64_t begin, std::int64_t count, const Tensor& state, bool resume) {
        const auto part = [&](const std::vector<float>& all, const Shape& shape) {
          return tokens_of(tape, host, all, shape, begin, count);
        };
        DeltaVars in{part(q, of_k), part(k, of_k), part(v, of_v), {}, part(g, of_g), 0.1};
        if (rule.corrects) in.beta = part(beta, of_head);
        return host.read<float>(delta_scan(tape, in, state, resume).value);
      };
      tape.begin(false);
      const Tensor state = host.f32({1, heads, keys, width}, random_floats(heads * keys * width, 44));
      expect_pieces_of_the_whole(scan, state, rule.name + (" " + std::to_string(keys)) + " x " + std::to_string(width));
    }
  }
}

// The kernels for wide heads and states, which the table's small sizes do not reach.
TEST_F(CudaBackendTest, TakesWideStates) {
  const std::unique_ptr<Backend> cpu = make_cpu_backend(2);
  for (const std::int64_t states : {16, 24, 64, 128}) {
    OpCase c;
    c.name = "wide_scan_" + std::to_string(states);
    c.inputs = {{"x", {1, 37, 2, 65}},        {"B", {1, 37, 1, states}}, {"C", {1, 37, 1, states}},
                {"dt", {1, 37, 2}, 0.1, 0.8}, {"A_log", {2}, -1, 1},     {"D", {2}}};
    c.run = [](Tape& tape, std::span<const Var> in, std::span<const Tensor>) {
      ScanVars vars{in[0], in[3], in[4], in[1], in[2], in[5], {}, {}};
      vars.heads = 2;
      return ssd_scan(tape, vars);
    };
    for (const Difference& difference : compare_backends(c, *cpu, *cuda_))
      EXPECT_LE(difference.error, 1e-5) << states << " states, " << difference.what;
  }
}

TEST_P(CudaPaths, TakesWideRanks) {
  const std::unique_ptr<Backend> cpu = make_cpu_backend(2);
  const auto check = [&](RidgeConfig::Mode mode, std::int64_t length, std::int64_t rank, std::int64_t width) {
    OpCase c;
    c.name = "wide_ridge_" + std::to_string(length) + "_" + std::to_string(rank);
    c.inputs = {{"z", {1, length, 2, rank}},
                {"q", {1, length, 2, rank}},
                {"v", {1, length, 2, width}},
                {"eta", {2}, 0.5, 1.5},
                {"gamma_raw", {2}}};
    RidgeConfig config;
    config.mode = mode;
    config.ridge = 0.02;
    c.run = [config](Tape& tape, std::span<const Var> in, std::span<const Tensor>) {
      return ridge_readout(tape, config, {in[0], in[1], in[2], in[3], in[4], {}});
    };
    for (const Difference& difference : compare_backends(c, *cpu, *cuda_))
      EXPECT_LE(difference.error, 2e-4) << c.name << ", " << difference.what;
  };
  check(RidgeConfig::Mode::chunk, 257, 56, 64);
  check(RidgeConfig::Mode::chunk, 200, 63, 37);
  check(RidgeConfig::Mode::prefix, 130, 64, 64);
  check(RidgeConfig::Mode::prefix, 130, 24, 32);
  check(RidgeConfig::Mode::recurrent, 40, 33, 5);
}

// More rows than one block sums, twice by the same weight, with a norm of fewer rows after them.
TEST_F(CudaBackendTest, SumsNormsWeightsOverManyRows) {
  const std::unique_ptr<Backend> cpu = make_cpu_backend(2);
  constexpr std::int64_t rows = 5000;
  for (const std::int64_t columns : {2, 37, 200, 500}) {
    OpCase c;
    c.name = "long_norms_" + std::to_string(columns);
    c.inputs = {{"x", {rows, columns}, 0.5, 1.5},
                {"z", {rows, columns}},
                {"weight", {columns}},
                {"gated", {columns}},
                {"behind", {5 * columns}}};
    c.run = [](Tape& tape, std::span<const Var> in, std::span<const Tensor>) {
      const Var once = rms_norm(tape, in[0], in[2], 0.1), twice = rms_norm(tape, once, in[2], 0.1);
      const Var gated = gated_rms_norm(tape, twice, in[1], in[3], 0.1);
      return rms_norm(tape, tape.reshape(gated, {rows / 5, 5 * in[3].value.columns()}), in[4], 0.1);
    };
    for (const Difference& difference : compare_backends(c, *cpu, *cuda_))
      EXPECT_LE(difference.error, 1e-5) << columns << " columns, " << difference.what;
  }
}

// Rows that are read in fours and others, after a range of columns that the operation does not compute; taps up to the
// most.
TEST_F(CudaBackendTest, ConvolvesManyTokens) {
  const std::unique_ptr<Backend> cpu = make_cpu_backend(2);
  for (const auto& [before, channels, taps] :
       {std::tuple{4, 136, 4}, {8, 132, 2}, {4, 130, 3}, {3, 64, 4}, {4, 36, 7}}) {
    for (const bool biased : {true, false}) {
      OpCase c;
      c.name = "long_convolution";
      c.inputs = {{"wide", {3, 1700, before + channels}}, {"weight", {channels, 1, taps}}};
      if (biased) c.inputs.push_back({"bias", {channels}});
      c.run = [=](Tape& tape, std::span<const Var> in, std::span<const Tensor>) {
        const std::int64_t widths[] = {before, channels};
        Var parts[2];
        tape.split_columns(in[0], widths, parts);
        const Var once = causal_conv(tape, parts[1], in[1], biased ? in[2] : Var{});
        return causal_conv(tape, once, in[1], biased ? in[2] : Var{});  // the same weights twice
      };
      for (const Difference& difference : compare_backends(c, *cpu, *cuda_))
        EXPECT_LE(difference.error, 5e-6) << channels << " channels, " << taps << " taps, " << difference.what;
    }
  }
}

// More convolutions than one launch sums, of different widths and taps, some with the same weights again.
TEST_F(CudaBackendTest, SumsWeightsOfSeveralConvolutions) {
  const std::unique_ptr<Backend> cpu = make_cpu_backend(2);
  constexpr std::int64_t rows = 70, taps[] = {1, 4, 2, 7, 3}, tokens[] = {70, 10, 35, 14, 5};
  OpCase c;
  c.name = "several_convolutions";
  c.inputs = {{"x", {2, rows, 3}}};
  for (int i = 0; i < 5; ++i) {
    const std::int64_t channels = 3 * rows / tokens[i];
    c.inputs.push_back({"weight " + std::to_string(i), {channels, 1, taps[i]}});
    c.inputs.push_back({"bias " + std::to_string(i), {channels}});
  }
  c.run = [&](Tape& tape, std::span<const Var> in, std::span<const Tensor>) {
    Var y = in[0];
    for (const int i : {0, 1, 2, 2, 3, 4, 1, 0, 3, 4, 4, 2}) {
      const std::int64_t own[] = {2, tokens[i], 3 * rows / tokens[i]};
      const bool biased = i != 2;
      y = causal_conv(tape, tape.reshape(y, {own[0], own[1], own[2]}), in[1 + 2 * i], biased ? in[2 + 2 * i] : Var{});
    }
    return tape.reshape(y, {2, rows, 3});
  };
  for (const Difference& difference : compare_backends(c, *cpu, *cuda_))
    EXPECT_LE(difference.error, 1e-5) << difference.what;
}

TEST_F(CudaBackendTest, TurnsModesOfManyRows) {
  const std::unique_ptr<Backend> cpu = make_cpu_backend(2);
  for (const std::int64_t pairs : {1, 33, 64, 90}) {
    for (const bool gated : {true, false}) {
      OpCase c;
      c.name = "long_modes";
      c.inputs = {{"lifted", {9001, 2 * pairs}, -4, 4}, {"gamma", {pairs}, -1.1, 1.1}, {"omega", {pairs}, -1.1, 1.1}};
      if (gated) c.inputs.push_back({"gate", {9001, 2 * pairs}, -3, 3});
      c.run = [gated](Tape& tape, std::span<const Var> in, std::span<const Tensor>) {
        return koopman_modes(tape, in[0], in[1], in[2], gated ? in[3] : Var{});
      };
      for (const Difference& difference : compare_backends(c, *cpu, *cuda_))
        EXPECT_LE(difference.error, 1e-5) << pairs << " pairs, " << difference.what;
    }
  }
}

TEST_F(CudaBackendTest, AttendsOverManyTiles) {
  const std::unique_ptr<Backend> cpu = make_cpu_backend(2);
  for (const std::int64_t width : {24, 64, 101, 128}) {
    OpCase c;
    c.name = "wide_attention_" + std::to_string(width);
    c.inputs = {{"q", {1, 101, 4, width}}, {"k", {1, 133, 2, width}}, {"v", {1, 133, 2, width}}};
    c.run = [](Tape& tape, std::span<const Var> in, std::span<const Tensor>) {
      return causal_attention(tape, in[0], in[1], in[2], 0.4);
    };
    for (const Difference& difference : compare_backends(c, *cpu, *cuda_))
      EXPECT_LE(difference.error, 1e-5) << width << " wide, " << difference.what;
  }
}

TEST_F(CudaBackendTest, RefusesSizesItHasNoKernelFor) {
  Arena arena(*cuda_);
  Tape tape(*cuda_, arena);
  tape.begin(false);
  HostValues host(*cuda_);
  const Var q = tape.constant(host.f32({1, 1, 1, 300}, random_floats(300, 1)));
  EXPECT_THROW(causal_attention(tape, q, q, q, 1.0), Error);
}

}  // namespace
}  // namespace afterglow::testing
