// cuSOLVER's eigenvalues and eigenpairs against Eigen's.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <vector>

#include "core/analysis/linear_algebra/spectrum.h"
#include "core/analysis/linear_algebra/symmetric_eigen.h"
#include "core/random/random.h"
#include "gpu/cuda.h"

namespace afterglow {
namespace {

TEST(CudaSymmetricEigen, SolvesWhatEigenSolves) {
  constexpr int n = 600;
  Random random(3, weights_stream, 0);
  std::vector<double> matrix(n * n);
  for (int i = 0; i < n; ++i) {
    for (int j = 0; j <= i; ++j) matrix[i * n + j] = matrix[j * n + i] = random.normal();
  }
  const SymmetricEigen host = symmetric_eigen(matrix, n);
  register_symmetric_eigen_solver(cuda_symmetric_eigen);
  const SymmetricEigen device = symmetric_eigen(matrix, n);
  register_symmetric_eigen_solver(nullptr);
  const double largest = host.values.back();
  for (int k = 0; k < n; ++k) EXPECT_NEAR(device.values[k], host.values[k], 1e-11 * largest);
  for (const int k : {0, 1, n / 2, n - 1}) {
    for (int i = 0; i < n; ++i) {
      double product = 0;
      for (int j = 0; j < n; ++j) product += matrix[i * n + j] * device.vectors[k * n + j];
      EXPECT_NEAR(product, device.values[k] * device.vectors[k * n + i], 1e-10 * largest);
    }
  }
}

/// A random matrix whose eigenvalues fill the unit disk.
std::vector<double> full_disk(int n) {
  Random random(5, weights_stream, 0);
  std::vector<double> matrix;
  for (int i = 0; i < n * n; ++i) matrix.push_back(random.normal() / std::sqrt(n));
  return matrix;
}

TEST(CudaGeneralEigenvalues, AreEigensAtEverySize) {
  for (const int n : {1, 2, 37, 56, 65, 101, 300}) {
    const std::vector<double> matrix = full_disk(n);
    const std::vector<std::complex<double>> expected = eigenvalues(matrix, n);
    std::vector<std::complex<double>> found(static_cast<std::size_t>(n));
    ASSERT_TRUE(cuda_general_eigenvalues(n, matrix.data(), found.data())) << n;
    std::stable_sort(found.begin(), found.end(), comes_before);
    for (std::size_t i = 0; i < found.size(); ++i) EXPECT_LT(std::abs(found[i] - expected[i]), 1e-9) << n << ", " << i;
  }
}

TEST(CudaGeneralEigenvalues, ServeTheAnalysesOfLargeMatrices) {
  const std::vector<double> matrix = full_disk(large_general);
  const std::vector<std::complex<double>> host = eigenvalues(matrix, large_general);
  register_general_eigen_solver(cuda_general_eigenvalues);
  const std::vector<std::complex<double>> device = eigenvalues(matrix, large_general);
  register_general_eigen_solver(nullptr);
  ASSERT_EQ(device.size(), host.size());
  EXPECT_NE(device, host) << "the same bits: cuSOLVER was not asked";
  for (std::size_t i = 0; i < host.size(); ++i) EXPECT_LT(std::abs(device[i] - host[i]), 1e-8) << i;
}

TEST(CudaGeneralEigenvalues, AConjugatePairComesAsOne) {
  const double turn[] = {0.6, -0.8, 0.8, 0.6};
  std::complex<double> values[2];
  ASSERT_TRUE(cuda_general_eigenvalues(2, turn, values));
  EXPECT_LT(std::abs(values[0] - std::conj(values[1])), 1e-14);
  EXPECT_NEAR(std::abs(values[0].imag()), 0.8, 1e-14);
  EXPECT_NEAR(values[0].real(), 0.6, 1e-14);
}

}  // namespace
}  // namespace afterglow
