// Programmatic dependent launch: a kernel may start while the last blocks of the kernel before it still run.
#pragma once
#include <nv/target>

#include "core/tensor/tensor.h"

namespace afterglow::device {

/// Every kernel that `launch` starts calls this before it writes, or reads what the previous kernel may still write
/// (griddepcontrol.wait). It returns when everything queued before has ended. The next kernel begins after that, or
/// before it where this one `is_short`, so that several short ones and the projection behind them begin while the
/// kernel in front still runs; `CudaBackend::launched` must know.
__device__ inline void wait_for_previous_kernel(bool is_short = false) {
  NV_IF_TARGET(NV_PROVIDES_SM_90,
               (if (is_short) cudaTriggerProgrammaticLaunchCompletion(); cudaGridDependencySynchronize();
                if (!is_short) cudaTriggerProgrammaticLaunchCompletion();))
}

/// Whether kernels start early: the GPU and the code built for it support that, and no other back end shares the GPU.
bool begins_early();

/// Whether kernels may use warp-group products: compute capability 9.0, and not switched off (cuda_use_warpgroups).
bool has_warpgroups();

/// Maximum threads of a block.
constexpr unsigned max_threads = 1024;
/// Bytes of shared memory that a block has by default, and the maximum on this GPU.
constexpr int default_shared_memory = 48 << 10;
int max_shared_memory();

/// Lets a kernel's blocks use this much shared memory; throws when the GPU has less, naming the operation `what`.
void allow_shared_memory(const void* kernel, int bytes, const char* what);

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
  // `launched` reports a refused launch from cudaGetLastError.
  (void)cudaLaunchKernelEx(&config, kernel, Parameters(arguments)...);
}

/// The same with as much shared memory as the operation `what` needs.
template <class... Parameters, class... Arguments>
void launch(const char* what, void (*kernel)(Parameters...), dim3 grid, dim3 block, std::size_t shared_bytes,
            cudaStream_t stream, const Arguments&... arguments) {
  allow_shared_memory(reinterpret_cast<const void*>(kernel), int(shared_bytes), what);
  launch(kernel, grid, block, shared_bytes, stream, arguments...);
}

/// The same for a kernel that does not wait for the previous one: it starts when that has ended.
template <class... Parameters, class... Arguments>
void launch_after(const char* what, void (*kernel)(Parameters...), dim3 grid, dim3 block, std::size_t shared_bytes,
                  cudaStream_t stream, const Arguments&... arguments) {
  allow_shared_memory(reinterpret_cast<const void*>(kernel), int(shared_bytes), what);
  kernel<<<grid, block, shared_bytes, stream>>>(Parameters(arguments)...);
}

}  // namespace afterglow::device
