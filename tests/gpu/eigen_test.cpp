// cuSOLVER's symmetric eigenpairs against the definition.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "core/analysis/kl_decompose.h"
#include "core/analysis/symmetric_eigen.h"
#include "core/random/random.h"
#include "gpu/cuda.h"

namespace afterglow {
namespace {

TEST(CudaSymmetricEigen, SolvesWhatEigenSolves) {
  if (cuda_devices().devices.empty()) GTEST_SKIP() << cuda_devices().why_none;
  constexpr int rows = 600, width = 3;
  Random random(3, weights_stream, 0);
  std::vector<double> history(rows * width);
  for (double& value : history) value = random.normal();
  KlConfig config;
  config.strategy = KlStrategy::kernel;
  config.components = 6;
  const KlDecomposition host = kl_decompose(config, history, rows, width);
  register_symmetric_eigen_solver(cuda_symmetric_eigen);
  const KlDecomposition device = kl_decompose(config, history, rows, width);
  register_symmetric_eigen_solver(nullptr);
  ASSERT_EQ(device.count, 6);
  for (int k = 0; k < 6; ++k) EXPECT_NEAR(device.eigenvalues[k] / host.eigenvalues[k], 1.0, 1e-10);
  for (std::size_t i = 0; i < host.modes.size(); ++i) EXPECT_NEAR(device.modes[i], host.modes[i], 1e-8);
}

}  // namespace
}  // namespace afterglow
