// Symmetric eigenproblems in float64 by cuSOLVER's divide and conquer.
#include "gpu/ops/eigen/solver_memory.h"

namespace afterglow {
namespace {

bool solve(cusolverDnHandle_t solver, int n, double* matrix, double* values) {
  constexpr cusolverEigMode_t with_vectors = CUSOLVER_EIG_MODE_VECTOR;
  constexpr cublasFillMode_t lower = CUBLAS_FILL_MODE_LOWER;
  const std::size_t square = static_cast<std::size_t>(n) * n * sizeof(double), line = n * sizeof(double);
  const SolverMemory A(square), w(line), status(sizeof(int));
  if (!A.is_allocated() || !w.is_allocated() || !status.is_allocated()) return false;
  int elements = 0;
  if (cusolverDnDsyevd_bufferSize(solver, with_vectors, lower, n, A.as<double>(), n, w.as<double>(), &elements) !=
      CUSOLVER_STATUS_SUCCESS)
    return false;
  const SolverMemory work(static_cast<std::size_t>(elements) * sizeof(double));
  if (!work.is_allocated() || cudaMemcpy(A.as<double>(), matrix, square, cudaMemcpyHostToDevice) != cudaSuccess)
    return false;
  if (cusolverDnDsyevd(solver, with_vectors, lower, n, A.as<double>(), n, w.as<double>(), work.as<double>(), elements,
                       status.as<int>()) != CUSOLVER_STATUS_SUCCESS)
    return false;
  int failed = 1;
  return cudaMemcpy(&failed, status.as<int>(), sizeof failed, cudaMemcpyDeviceToHost) == cudaSuccess && failed == 0 &&
         cudaMemcpy(values, w.as<double>(), line, cudaMemcpyDeviceToHost) == cudaSuccess &&
         cudaMemcpy(matrix, A.as<double>(), square, cudaMemcpyDeviceToHost) == cudaSuccess;
}

}  // namespace

bool cuda_symmetric_eigen(int n, double* matrix, double* values) {
  return with_solver([&](cusolverDnHandle_t solver) { return solve(solver, n, matrix, values); });
}

}  // namespace afterglow
