// Eigenvalues of general matrices in float64 by cuSOLVER's Hessenberg reduction and QR iteration.
#include <vector>

#include "gpu/ops/eigen/solver_memory.h"

namespace afterglow {
namespace {

constexpr cusolverEigMode_t no_vectors = CUSOLVER_EIG_MODE_NOVECTOR;

// With real types throughout, w holds n real parts and then n imaginary parts.
bool solve(cusolverDnHandle_t solver, cusolverDnParams_t params, int n, const double* matrix,
           std::complex<double>* values) {
  const std::size_t square = static_cast<std::size_t>(n) * n * sizeof(double), line = 2 * n * sizeof(double);
  const SolverMemory A(square), w(line), status(sizeof(int));
  if (!A.is_allocated() || !w.is_allocated() || !status.is_allocated()) return false;
  std::size_t on_device = 0, on_host = 0;
  if (cusolverDnXgeev_bufferSize(solver, params, no_vectors, no_vectors, n, CUDA_R_64F, A.as<double>(), n, CUDA_R_64F,
                                 w.as<double>(), CUDA_R_64F, nullptr, n, CUDA_R_64F, nullptr, n, CUDA_R_64F, &on_device,
                                 &on_host) != CUSOLVER_STATUS_SUCCESS)
    return false;
  const SolverMemory work(on_device);
  std::vector<std::byte> host_work(on_host);
  if (!work.is_allocated() || cudaMemcpy(A.as<double>(), matrix, square, cudaMemcpyHostToDevice) != cudaSuccess)
    return false;
  if (cusolverDnXgeev(solver, params, no_vectors, no_vectors, n, CUDA_R_64F, A.as<double>(), n, CUDA_R_64F,
                      w.as<double>(), CUDA_R_64F, nullptr, n, CUDA_R_64F, nullptr, n, CUDA_R_64F, work.as<void>(),
                      on_device, host_work.data(), on_host, status.as<int>()) != CUSOLVER_STATUS_SUCCESS)
    return false;
  int failed = 1;
  std::vector<double> parts(2 * static_cast<std::size_t>(n));
  if (cudaMemcpy(&failed, status.as<int>(), sizeof failed, cudaMemcpyDeviceToHost) != cudaSuccess || failed != 0 ||
      cudaMemcpy(parts.data(), w.as<double>(), line, cudaMemcpyDeviceToHost) != cudaSuccess)
    return false;
  for (int i = 0; i < n; ++i) values[i] = {parts[static_cast<std::size_t>(i)], parts[static_cast<std::size_t>(n + i)]};
  return true;
}

}  // namespace

bool cuda_general_eigenvalues(int n, const double* matrix, std::complex<double>* values) {
  return with_solver([&](cusolverDnHandle_t solver) {
    cusolverDnParams_t params = nullptr;
    if (cusolverDnCreateParams(&params) != CUSOLVER_STATUS_SUCCESS) return false;
    const bool solved = solve(solver, params, n, matrix, values);
    cusolverDnDestroyParams(params);
    return solved;
  });
}

}  // namespace afterglow
