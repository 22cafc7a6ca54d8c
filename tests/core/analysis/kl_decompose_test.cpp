// Karhunen-Loeve decomposition: golden files, closed forms, the two sides of the covariance, the growing history.
#include "core/analysis/kl_decompose.h"

#include <gmock/gmock.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <numbers>

#include "core/analysis/linear_algebra/symmetric_eigen.h"
#include "core/io/safetensors.h"
#include "core/random/random.h"
#include "tests/support/folders.h"

namespace afterglow {
namespace {

using testing::DoubleNear;
using testing::Each;
using testing::Pointwise;

std::vector<double> noise(int rows, int width, std::uint64_t seed, double offset = 0.0) {
  Random random(seed, weights_stream, 0);
  std::vector<double> values(static_cast<std::size_t>(rows) * width);
  for (double& value : values) value = offset + random.normal();
  return values;
}

double distance(const std::vector<double>& a, const std::vector<double>& b) {
  EXPECT_EQ(a.size(), b.size());
  double squares = 0, norm = 0;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    squares += (a[i] - b[i]) * (a[i] - b[i]);
    norm += b[i] * b[i];
  }
  return std::sqrt(squares / std::max(norm, 1e-300));
}

void expect_equal(const KlDecomposition& got, const KlDecomposition& want, double tolerance) {
  EXPECT_LE(distance(got.eigenvalues, want.eigenvalues), tolerance);
  EXPECT_LE(distance(got.modes, want.modes), tolerance);
  EXPECT_LE(distance(got.components, want.components), tolerance);
  EXPECT_NEAR(got.variance, want.variance, tolerance * want.variance);
}

TEST(KlDecompose, AgreesWithTheGoldenFiles) {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(golden_folder())) {
    if (!entry.path().filename().string().starts_with("kl_")) continue;
    SCOPED_TRACE(entry.path().filename().string());
    const TensorFile file = read_safetensors(entry.path());
    const auto json = nlohmann::json::parse(file.metadata.at("config"));
    KlConfig config;
    ASSERT_TRUE(parse_kl_strategy(json.at("strategy"), config.strategy));
    ASSERT_TRUE(parse_kl_kernel(json.at("kernel"), config.kernel));
    config.tau = json.at("tau");
    config.components = json.at("components");
    config.lambda_scaling = json.at("lambda_scaling");
    const HostTensor& history = *file.find("history");
    const KlDecomposition kl = kl_decompose(config, to_doubles(history), static_cast<int>(history.shape[0]),
                                            static_cast<int>(history.shape[1]));
    EXPECT_LE(distance(kl.components, to_doubles(*file.find("components"))), 1e-9);
    EXPECT_LE(distance(kl.eigenvalues, to_doubles(*file.find("eigenvalues"))), 1e-9);
    EXPECT_LE(distance(kl.modes, to_doubles(*file.find("modes"))), 1e-9);
    ++files;
  }
  EXPECT_GE(files, 5);
}

// Row t is sum over k of a_k sqrt(2) cos(2 pi k t / T) e_k: the covariance is known exactly.
TEST(KlDecompose, FindsKnownEigenvaluesAndModes) {
  constexpr int rows = 96, width = 7;
  const double amplitudes[] = {5, 3, 2, 0.5};
  std::vector<double> history(rows * width, 1.25);
  for (int t = 0; t < rows; ++t) {
    for (int k = 0; k < 4; ++k)
      history[t * width + k] +=
          amplitudes[k] * std::numbers::sqrt2 * std::cos(2 * std::numbers::pi * (k + 1) * t / rows);
  }
  KlConfig config;
  config.components = 6;
  const KlDecomposition kl = kl_decompose(config, history, rows, width);
  for (int k = 0; k < 4; ++k) {
    EXPECT_NEAR(kl.eigenvalues[k], amplitudes[k] * amplitudes[k], 1e-12 * 25);
    for (int t = 0; t < rows; ++t) {
      EXPECT_NEAR(kl.modes[t * 6 + k], std::sqrt(2.0 / rows) * std::cos(2 * std::numbers::pi * (k + 1) * t / rows),
                  1e-12);
    }
    // sqrt(lambda) psi^T Hc = sqrt(lambda) sqrt(T lambda) e_k
    EXPECT_NEAR(kl.components[k * width + k], kl.eigenvalues[k] * std::sqrt(rows), 1e-9);
  }
  EXPECT_NEAR(kl.variance, 25 + 9 + 4 + 0.25, 1e-11);
  EXPECT_NEAR(kl.eigenvalues[5], 0.0, 1e-12);
}

TEST(KlDecompose, GivesTheSameByEitherSideOfTheCovariance) {
  // 40 rows of width 12 are solved by [12, 12]; with zero columns up to width 40 by [40, 40].
  const std::vector<double> narrow = noise(40, 12, 3);
  std::vector<double> wide(40 * 40, 0.0);
  for (int t = 0; t < 40; ++t) std::copy_n(narrow.begin() + t * 12, 12, wide.begin() + t * 40);
  KlConfig config;
  config.components = 9;
  const KlDecomposition a = kl_decompose(config, narrow, 40, 12), b = kl_decompose(config, wide, 40, 40);
  EXPECT_LE(distance(a.eigenvalues, b.eigenvalues), 1e-11);
  EXPECT_LE(distance(a.modes, b.modes), 1e-9);
}

TEST(KlDecompose, ModesAreOrthonormalEvenWhereNothingVaries) {
  for (const int rows : {1, 2, 5, 37}) {
    std::vector<double> history(static_cast<std::size_t>(rows) * 3, 2.0);
    history[0] = 3.0;
    KlConfig config;
    config.components = 8;
    const KlDecomposition kl = kl_decompose(config, history, rows, 3);
    ASSERT_EQ(kl.count, std::min(8, rows));
    for (int a = 0; a < kl.count; ++a) {
      for (int b = 0; b <= a; ++b) {
        double product = 0;
        for (int t = 0; t < rows; ++t) product += kl.modes[t * kl.count + a] * kl.modes[t * kl.count + b];
        EXPECT_NEAR(product, a == b ? 1.0 : 0.0, 1e-12);
      }
    }
  }
}

// The continuous operator with kernel exp(-r/s) on [0, 1] has eigenvalues 2 s / (1 + s^2 w^2) with w tan(w/2) = 1/s or
// tan(w/2) = -s w in turn; the factor tau/(T-1) makes the matrix T s times the Riemann sum of that operator.
TEST(KlDecompose, ApproachesTheAnalyticSpectrumOfTheExponentialKernel) {
  constexpr int rows = 801;
  KlConfig config;
  config.strategy = KlStrategy::kernel;
  config.tau = 160.0;
  config.components = 6;
  const KlDecomposition kl = kl_decompose(config, noise(rows, 2, 5), rows, 2);
  const double s = config.tau / rows;
  for (int k = 0; k < 6; ++k) {
    // The k-th root lies between k pi and (k + 1) pi, where cot or tan has one branch.
    double low = k * std::numbers::pi + 1e-9, high = (k + 1) * std::numbers::pi - 1e-9;
    const auto even = [&](double w) { return w * std::tan(w / 2) - 1 / s; };
    const auto odd = [&](double w) { return std::tan(w / 2) + s * w; };
    for (int i = 0; i < 200; ++i) {
      const double middle = 0.5 * (low + high);
      const double value = k % 2 == 0 ? even(middle) : odd(middle);
      (value > 0 ? high : low) = middle;
    }
    const double analytic = config.tau * 2 * s / (1 + s * s * low * low);
    EXPECT_NEAR(kl.eigenvalues[k] / analytic, 1.0, 0.01) << k;
  }
}

TEST(KlDecompose, ReconstructionErrorFallsToZero) {
  const std::vector<double> history = noise(50, 6, 9);
  KlConfig config;
  config.components = 6;
  const KlDecomposition kl = kl_decompose(config, history, 50, 6);
  const std::vector<double> errors = kl_reconstruction_errors(kl, history);
  ASSERT_EQ(errors.size(), 7u);
  EXPECT_DOUBLE_EQ(errors.front(), 1.0);
  EXPECT_NEAR(errors.back(), 0.0, 1e-7);
  double left = kl.variance;
  for (int k = 0; k < 6; ++k) {
    left -= kl.eigenvalues[k];
    EXPECT_NEAR(errors[k + 1], std::sqrt(std::max(0.0, left) / kl.variance), 1e-7);
  }
}

TEST(KlDecompose, RefusesWhatIsNotFinite) {
  std::vector<double> history = noise(8, 3, 1);
  history[5] = NAN;
  EXPECT_EQ(kl_decompose({}, history, 8, 3).count, 0);
  EXPECT_EQ(kl_decompose({}, {}, 0, 3).count, 0);
}

TEST(KlHistory, EqualsTheFullDecompositionAfterEveryRow) {
  constexpr int width = 5, capacity = 150;
  const std::vector<double> all = noise(400, width, 11, 1000.0);  // a mean far from zero would cancel in plain sums
  KlHistory history(width, capacity);
  KlConfig config;
  config.components = 4;
  for (int t = 0; t < 400; ++t) {
    history.append(std::span(all).subspan(static_cast<std::size_t>(t) * width, width));
    const int rows = std::min(t + 1, capacity);
    ASSERT_EQ(history.rows(), rows);
    const auto window =
        std::span(all).subspan(static_cast<std::size_t>(t + 1 - rows) * width, static_cast<std::size_t>(rows) * width);
    ASSERT_THAT(history.values(), Pointwise(DoubleNear(0), std::vector<double>(window.begin(), window.end())));
    if (rows > width + 1) expect_equal(history.decompose(config), kl_decompose(config, window, rows, width), 1e-9);
  }
}

TEST(KlHistory, IsAFunctionOfItsRowsAlone) {
  for (const int capacity : {7, 64, 100, 200}) {
    constexpr int width = 4;
    const std::vector<double> all = noise(333, width, 13);
    KlHistory grown(width, capacity), restored(width, capacity);
    KlConfig config;
    config.components = 3;
    for (int t = 0; t < 300; ++t) grown.append(std::span(all).subspan(static_cast<std::size_t>(t) * width, width));
    restored.assign(grown.values(), grown.appended());
    for (int t = 300; t < 333; ++t) {
      for (KlHistory* history : {&grown, &restored})
        history->append(std::span(all).subspan(static_cast<std::size_t>(t) * width, width));
      EXPECT_EQ(grown.decompose(config).components, restored.decompose(config).components);
    }
  }
}

/// Rows whose spectrum falls by a factor of `fall` from one direction to the next, far from zero.
std::vector<double> falling_noise(int rows, int width, double fall) {
  std::vector<double> values = noise(rows, width, 19);
  for (int t = 0; t < rows; ++t) {
    for (int c = 0; c < width; ++c) values[t * width + c] = 50.0 + values[t * width + c] * std::pow(fall, c);
  }
  return values;
}

TEST(KlHistory, ComponentsAreThoseOfTheWholeDecomposition) {
  for (const double fall : {1.0, 0.3, 0.01, 0.0}) {  // 0.01: the last directions lie below float32's rounding
    constexpr int width = 6, capacity = 500;
    const std::vector<double> all = falling_noise(1300, width, fall);
    KlHistory history(width, capacity);
    KlConfig config;
    config.components = 8;  // more than the width: the last two hold nothing
    for (int t = 0; t < 1300; ++t) {
      history.append(std::span(all).subspan(static_cast<std::size_t>(t) * width, width));
      if (t % 37 != 0 && t != 1299) continue;
      const KlDecomposition whole = history.decompose(config), part = history.components(config);
      ASSERT_EQ(part.count, whole.count);
      ASSERT_EQ(part.rows, whole.rows);
      EXPECT_TRUE(part.modes.empty());
      EXPECT_LE(distance(part.eigenvalues, whole.eigenvalues), 1e-14) << t;
      EXPECT_DOUBLE_EQ(part.variance, whole.variance);
      for (int k = 0; k < part.count; ++k) {
        // Each row on its own, so that a wrong sign of a small one shows.
        const std::vector<double> a(part.components.begin() + k * width, part.components.begin() + (k + 1) * width);
        const std::vector<double> b(whole.components.begin() + k * width, whole.components.begin() + (k + 1) * width);
        const double floor = 1e-13 * std::abs(whole.components[0]);
        for (int c = 0; c < width; ++c)
          EXPECT_NEAR(a[c], b[c], 1e-4 * distance(b, std::vector<double>(b.size())) + floor);
      }
    }
  }
}

TEST(KlHistory, ComponentsOfStrategyBAndOfShortHistoriesAreTheSame) {
  const std::vector<double> all = noise(12, 5, 23);
  for (const KlStrategy strategy : {KlStrategy::empirical, KlStrategy::kernel}) {
    KlHistory history(5, 12);
    KlConfig config;
    config.strategy = strategy;
    config.components = 4;
    EXPECT_EQ(history.components(config).count, 0);
    for (int t = 0; t < 12; ++t) {
      history.append(std::span(all).subspan(static_cast<std::size_t>(t) * 5, 5));
      EXPECT_LE(distance(history.components(config).components, history.decompose(config).components), 1e-12);
    }
  }
}

// The newest rows of a long history are a history of that many.
TEST(KlHistory, ItsNewestRowsAreThoseOfAShorterHistory) {
  constexpr int width = 3, rows = 700;
  const std::vector<double> all = noise(rows, width, 37, 7.0);
  KlHistory grown(width, 500);
  for (int t = 0; t < rows; ++t) grown.append(std::span(all).subspan(static_cast<std::size_t>(t) * width, width));
  for (const KlStrategy strategy : {KlStrategy::empirical, KlStrategy::kernel}) {
    KlConfig config;
    config.strategy = strategy;
    config.components = 3;
    for (const int last : {3, 63, 64, 129, 300, 500, 900, 0}) {
      const int kept = last == 0 ? 500 : std::min(last, 500);
      KlHistory shorter(width, kept);
      for (int t = 0; t < rows; ++t) shorter.append(std::span(all).subspan(static_cast<std::size_t>(t) * width, width));
      ASSERT_EQ(grown.values(last), shorter.values()) << last;
      const KlDecomposition part = grown.decompose(config, last), other = shorter.decompose(config);
      EXPECT_EQ(part.rows, kept);
      EXPECT_LE(distance(part.components, other.components), 1e-12) << last;
      EXPECT_LE(distance(part.modes, other.modes), 1e-12) << last;
      EXPECT_EQ(grown.components(config, last).components, shorter.components(config).components) << last;
      const KlDecomposition plain = kl_decompose(config, grown.values(last), kept, width);
      EXPECT_LE(distance(part.eigenvalues, plain.eigenvalues), 1e-10) << last;
    }
  }
}

TEST(KlHistory, SumsOfPairsOfBlocksAreAFunctionOfTheRows) {
  constexpr int width = 3;
  const std::vector<double> all = noise(3000, width, 29, 7.0);
  for (const int capacity : {129, 700, 1024}) {
    KlHistory grown(width, capacity);
    KlConfig config;
    config.components = 3;
    for (int t = 0; t < 3000; ++t) {
      grown.append(std::span(all).subspan(static_cast<std::size_t>(t) * width, width));
      if (t % 211 != 0) continue;
      KlHistory restored(width, capacity);
      restored.assign(grown.values(), grown.appended());
      ASSERT_EQ(grown.components(config).components, restored.components(config).components) << t;
      const KlDecomposition plain = kl_decompose(config, grown.values(), grown.rows(), width);
      if (grown.rows() > width) {
        EXPECT_LE(distance(grown.decompose(config).components, plain.components), 1e-10) << t;
      }
    }
  }
}

TEST(KlHistory, KernelModesFollowTheNumberOfRows) {
  constexpr int width = 3;
  const std::vector<double> all = noise(30, width, 17);
  KlHistory history(width, 20);
  KlConfig config;
  config.strategy = KlStrategy::kernel;
  config.kernel = KlKernel::matern;
  config.components = 5;
  for (int t = 0; t < 30; ++t) {
    history.append(std::span(all).subspan(static_cast<std::size_t>(t) * width, width));
    const int rows = std::min(t + 1, 20);
    const auto window =
        std::span(all).subspan(static_cast<std::size_t>(t + 1 - rows) * width, static_cast<std::size_t>(rows) * width);
    if (rows > 5) expect_equal(history.decompose(config), kl_decompose(config, window, rows, width), 1e-9);
  }
}

// Equation 21 writes (1 + r) e^{-r/tau}, whose spectrum is negative from omega^2 = a^2 (1 + a) / (1 - a) on, a = 1/tau:
// no covariance where tau > 1 in the unit of r, as with rows; in lengths of the history tau / T < 1.
TEST(KlKernels, TheMaternOfEquation21IsNoCovarianceOverRows) {
  constexpr int rows = 200;
  const auto least_eigenvalue = [](double tau, double slope) {
    std::vector<double> matrix;
    for (int i = 0; i < rows; ++i) {
      for (int j = 0; j < rows; ++j) matrix.push_back((1 + slope * std::abs(i - j)) * std::exp(-std::abs(i - j) / tau));
    }
    return symmetric_eigen(matrix, rows).values.front();
  };
  EXPECT_LT(least_eigenvalue(20, 1), -1);
  EXPECT_LT(least_eigenvalue(3, 1), -0.1);
  for (const double tau : {3.0, 20.0}) EXPECT_GT(least_eigenvalue(tau, 1 / tau), 0) << tau;
}

// Against the matrix itself, formed and diagonalised: both forms, with tau below and above the length of the history.
TEST(KlKernels, BothMaternsAreWhatTheirEquationsSay) {
  constexpr int rows = 40, width = 4;
  const std::vector<double> history = noise(rows, width, 41);
  for (const KlKernel kernel : {KlKernel::matern, KlKernel::matern_eq21}) {
    for (const double tau : {3.0, 25.0, 400.0}) {
      KlConfig config;
      config.strategy = KlStrategy::kernel;
      config.kernel = kernel;
      config.tau = tau;
      config.components = 5;
      const double scale = tau / rows;
      std::vector<double> matrix;
      for (int i = 0; i < rows; ++i) {
        for (int j = 0; j < rows; ++j) {
          const double r = std::abs(i - j) / (rows - 1.0), slope = kernel == KlKernel::matern ? r / scale : r;
          matrix.push_back(tau / (rows - 1.0) * (1 + slope) * std::exp(-r / scale) + (i == j ? 1e-8 : 0.0));
        }
      }
      const SymmetricEigen plain = symmetric_eigen(matrix, rows);
      const KlDecomposition kl = kl_decompose(config, history, rows, width);
      ASSERT_EQ(kl.count, 5);
      for (std::size_t k = 0; k < 5; ++k) {
        EXPECT_NEAR(kl.eigenvalues[k], std::max(1e-8, plain.values[rows - 1 - k]), 1e-10 * plain.values.back())
            << tau << ", mode " << k;
      }
      const bool is_covariance = kernel == KlKernel::matern || tau < rows;
      EXPECT_EQ(plain.values.front() > 0, is_covariance) << tau;
    }
  }
}

TEST(SymmetricEigen, TakesTheRegisteredSolverForLargeMatricesOnly) {
  static int calls = 0;
  register_symmetric_eigen_solver([](int n, double* matrix, double* values) {
    ++calls;
    std::fill_n(values, n, 7.0);
    std::fill_n(matrix, n * n, 0.0);
    return true;
  });
  const std::vector<double> small = {2, 0, 0, 3};
  EXPECT_THAT(symmetric_eigen(small, 2).values, Pointwise(DoubleNear(1e-15), {2.0, 3.0}));
  EXPECT_EQ(calls, 0);
  const std::vector<double> large(static_cast<std::size_t>(large_symmetric) * large_symmetric, 0.0);
  EXPECT_THAT(symmetric_eigen(large, large_symmetric).values, Each(7.0));
  EXPECT_EQ(calls, 1);
  register_symmetric_eigen_solver(nullptr);
}

}  // namespace
}  // namespace afterglow
