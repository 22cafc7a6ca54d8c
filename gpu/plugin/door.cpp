// The program's functions of cuda.h: they call the plugin, or report why there is no plugin.
#include <cstdlib>

#include "gpu/cuda.h"
#include "gpu/plugin/build.h"
#include "gpu/plugin/places.h"

namespace afterglow {
namespace {

/// Loaded once in a process, when a GPU is first asked for.
const FoundPlugin& plugin() {
  static const FoundPlugin found = load_plugin(plugin_places(), plugin_build);
  return found;
}

}  // namespace

CudaSystem cuda_devices() {
  if (plugin().functions != nullptr) return plugin().functions->devices();
  CudaSystem system;
  system.why_none = plugin().why_none;
  return system;
}

void cuda_expect_many_runs() { ::setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", /*overwrite=*/0); }

std::unique_ptr<Backend> make_cuda_backend(int device, std::string* why_not) {
  if (plugin().functions != nullptr) return plugin().functions->make_backend(device, why_not);
  if (why_not != nullptr) *why_not = plugin().why_none;
  return nullptr;
}

CudaMemory cuda_device_memory(int device) {
  return plugin().functions != nullptr ? plugin().functions->device_memory(device) : CudaMemory{};
}

bool cuda_symmetric_eigen(int n, double* matrix, double* values) {
  return plugin().functions != nullptr && plugin().functions->symmetric_eigen(n, matrix, values);
}

bool cuda_general_eigenvalues(int n, const double* matrix, std::complex<double>* values) {
  return plugin().functions != nullptr && plugin().functions->general_eigenvalues(n, matrix, values);
}

}  // namespace afterglow
