// The door to the CUDA back end, which is a plugin (gpu/plugin): where it, the driver or a library is missing, every
// answer is "none" with the reason, so that nothing above needs to know what is installed.
#pragma once
#include <complex>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "core/backend/backend.h"

namespace afterglow {

struct CudaDevice {
  int index = 0;
  std::string name;
  std::size_t memory = 0;    ///< bytes
  int major = 0, minor = 0;  ///< compute capability
  int multiprocessors = 0;
};

struct CudaSystem {
  std::vector<CudaDevice> devices;
  std::string driver, toolkit;  ///< versions such as "13.0"; empty where there is none
  std::string why_none;         ///< a sentence when `devices` is empty
};

/// What this machine offers; never throws.
CudaSystem cuda_devices();

/// Said before the first back end is made: more runs than eight may share a GPU. They reach it without waiting in one
/// another's queues, where the user has set no CUDA_DEVICE_MAX_CONNECTIONS; one large run alone takes 1 % longer then.
void cuda_expect_many_runs();

/// A back end on GPU `device`, or null with the reason in `why_not` (no driver, no plugin, no such GPU).
std::unique_ptr<Backend> make_cuda_backend(int device, std::string* why_not);

/// Eigenvalues and vectors of a large symmetric matrix in float64 (see core/analysis/linear_algebra/symmetric_eigen.h);
/// false where there is no usable GPU or not enough memory on it.
bool cuda_symmetric_eigen(int n, double* matrix, double* values);

/// Eigenvalues of any real matrix [n*n] in float64, in no order (see core/analysis/linear_algebra/spectrum.h); false
/// where there is no usable GPU, not enough memory on it, or a cuSOLVER without `cusolverDnXgeev`.
bool cuda_general_eigenvalues(int n, const double* matrix, std::complex<double>* values);

struct CudaMemory {
  std::size_t free = 0, total = 0;  ///< bytes
};
/// Of GPU `device`, counting every process on it; zeros where there is none.
CudaMemory cuda_device_memory(int device);

}  // namespace afterglow
