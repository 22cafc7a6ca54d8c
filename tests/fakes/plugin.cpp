// Stands in for the CUDA plugin where there is no GPU: a device that is made up, and kernels that fail.
#include "gpu/plugin/plugin.h"

#include "core/io/error.h"
#include "gpu/plugin/build.h"

namespace {

afterglow::CudaSystem devices() {
  return {{{0, "A made-up GPU", std::size_t{8} << 30, 9, 0, 132}}, "13.0", "13.0", ""};
}

std::unique_ptr<afterglow::Backend> make_backend(int device, std::string* why_not) {
  if (why_not != nullptr) *why_not = "GPU " + std::to_string(device) + " is made up";
  return nullptr;
}

afterglow::CudaMemory device_memory(int) { return {1, 2}; }

bool symmetric_eigen(int, double*, double*) {
  throw afterglow::Error(afterglow::ExitCode::out_of_memory, "the made-up GPU has too little memory");
}

bool general_eigenvalues(int n, const double*, std::complex<double>* values) {
  for (int i = 0; i < n; ++i) values[i] = {i + 1.0, 0.5};
  return true;
}

}  // namespace

extern "C" {

const char* afterglow_plugin_build() { return afterglow::plugin_build; }

const afterglow::CudaPlugin* afterglow_plugin() {
  static constexpr afterglow::CudaPlugin functions{devices, make_backend, device_memory, symmetric_eigen,
                                                   general_eigenvalues};
  return &functions;
}
}
