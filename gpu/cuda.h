// Interface of the CUDA back end, which is a plugin (gpu/plugin). Without plugin, driver or library every call reports
// that there is no GPU and why.
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
  std::string driver, toolkit;  ///< versions such as "13.0"; empty when absent
  std::string why_none;         ///< a sentence when `devices` is empty
};

/// The GPUs of this machine; never throws.
CudaSystem cuda_devices();

/// Call before the first back end is made when more than eight runs may share a GPU: each then gets a hardware queue of
/// its own, unless the user has set CUDA_DEVICE_MAX_CONNECTIONS. A single large run takes 1 % longer then.
void cuda_expect_many_runs();

/// A back end on GPU `device`, or null with the reason in `why_not` (no driver, no plugin, no such GPU).
std::unique_ptr<Backend> make_cuda_backend(int device, std::string* why_not);

/// Eigenvalues and eigenvectors of a large symmetric matrix in float64 (see
/// core/analysis/linear_algebra/symmetric_eigen.h); false without a usable GPU or without enough memory on it.
bool cuda_symmetric_eigen(int n, double* matrix, double* values);

/// Eigenvalues of any real matrix [n*n] in float64, in no order (see core/analysis/linear_algebra/spectrum.h); false
/// without a usable GPU, enough memory on it, or a cuSOLVER with `cusolverDnXgeev`.
bool cuda_general_eigenvalues(int n, const double* matrix, std::complex<double>* values);

struct CudaMemory {
  std::size_t free = 0, total = 0;  ///< bytes
};
/// Memory of GPU `device`, counting every process on it; zeros without one.
CudaMemory cuda_device_memory(int device);

}  // namespace afterglow
