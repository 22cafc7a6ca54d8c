// The plugin's exports: its build, and the functions of cuda.h.
#include "gpu/plugin/build.h"
#include "gpu/plugin/plugin.h"

extern "C" {

const char* afterglow_plugin_build() { return afterglow::plugin_build; }

const afterglow::CudaPlugin* afterglow_plugin() {
  static constexpr afterglow::CudaPlugin functions{afterglow::cuda_devices, afterglow::make_cuda_backend,
                                                   afterglow::cuda_device_memory, afterglow::cuda_symmetric_eigen,
                                                   afterglow::cuda_general_eigenvalues};
  return &functions;
}
}
