// cuSOLVER's symmetric eigenpairs against the definition.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "core/analysis/symmetric_eigen.h"
#include "core/random/random.h"
#include "gpu/cuda.h"

namespace afterglow {
namespace {

TEST(CudaSymmetricEigen, SolvesWhatEigenSolves) {
  if (cuda_devices().devices.empty()) GTEST_SKIP() << cuda_devices().why_none;
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

}  // namespace
}  // namespace afterglow
