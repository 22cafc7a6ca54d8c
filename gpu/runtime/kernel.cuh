// What every file of kernels includes: the back end, launches, and the helpers of all kernel families.
#pragma once
#include "gpu/runtime/cuda_backend.h"
#include "gpu/runtime/launch.cuh"
#include "gpu/runtime/properties.h"
#include "gpu/tile/lanes.cuh"
#include "gpu/tile/pieces.cuh"

namespace afterglow::device {

/// Launches a kernel without dynamic shared memory in the back end's current stream; errors name the operation `what`.
template <class... Parameters, class... Arguments>
void launch(const CudaBackend& backend, const char* what, void (*kernel)(Parameters...), dim3 grid, dim3 block,
            const Arguments&... arguments) {
  launch(kernel, grid, block, 0, backend.stream(), arguments...);
  backend.launched(what);
}

}  // namespace afterglow::device
