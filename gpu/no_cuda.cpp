// Stands in for the CUDA back end where the build found no CUDA toolkit.
#include "gpu/cuda.h"

namespace afterglow {

namespace {
const char* const reason =
    "this build has no CUDA back end: it was configured without the CUDA toolkit; install it and build again with "
    "-DAFTERGLOW_CUDA=ON, or use --device cpu";
}

CudaSystem cuda_devices() {
  CudaSystem system;
  system.why_none = reason;
  return system;
}

std::unique_ptr<Backend> make_cuda_backend(int, std::string* why_not) {
  if (why_not != nullptr) *why_not = reason;
  return nullptr;
}

bool cuda_use_warpgroups(bool) { return false; }

CudaMemory cuda_memory(const Backend&) { return {}; }
CudaMemory cuda_device_memory(int) { return {}; }

bool cuda_symmetric_eigen(int, double*, double*) { return false; }
bool cuda_general_eigenvalues(int, const double*, std::complex<double>*) { return false; }

}  // namespace afterglow
