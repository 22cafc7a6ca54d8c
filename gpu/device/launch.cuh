// Launches whose kernels may begin while the one before still runs: its last blocks and the next one's start overlap,
// which saves about a microsecond for each of the many short kernels of a training step.
#pragma once
#include <nv/target>

#include "core/tensor/tensor.h"

namespace afterglow::device {

/// In every kernel that `launch` starts, before it writes or reads what may still be written: waits until all that was
/// queued before has ended.
__device__ inline void await_previous() {
  NV_IF_TARGET(NV_PROVIDES_SM_90, (cudaGridDependencySynchronize(); cudaTriggerProgrammaticLaunchCompletion();))
}

/// Whether kernels should begin early, and this GPU, with the code built for it, can do that.
bool begins_early();

/// Whether kernels may multiply by warp groups: compute capability 9.0, and not switched off (cuda_use_warpgroups).
bool has_warpgroups();

/// Threads that a block may have.
constexpr unsigned most_threads = 1024;
/// Bytes of shared memory that a block has without asking; and that it may ask for on this GPU.
constexpr int usual_shared_memory = 48 << 10;
int most_shared_memory();

template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, std::size_t shared_bytes, cudaStream_t stream,
            const Arguments&... arguments) {
  cudaLaunchAttribute early{};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  config.attrs = &early;
  config.numAttrs = begins_early() ? 1 : 0;
  // A refused launch stays in cudaGetLastError, where `launched` finds it.
  (void)cudaLaunchKernelEx(&config, kernel, Parameters(arguments)...);
}

}  // namespace afterglow::device
