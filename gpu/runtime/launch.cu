// Properties of this GPU and of the code built for it.
#include <atomic>

#include "core/io/error.h"
#include "gpu/runtime/kernel.cuh"
#include "gpu/runtime/warpgroup_switch.h"

namespace afterglow::device {
namespace {

__global__ void sample_kernel() {}

std::atomic<bool> warpgroups_wanted = true, gpu_shared = false;

/// An attribute of the current GPU, or `otherwise` when it is not known.
int attribute(cudaDeviceAttr name, int otherwise) {
  int device = 0, value = 0;
  const bool is_known =
      cudaGetDevice(&device) == cudaSuccess && cudaDeviceGetAttribute(&value, name, device) == cudaSuccess;
  return is_known ? value : otherwise;
}

bool gpu_has_warpgroups() {
  static const bool result =
      attribute(cudaDevAttrComputeCapabilityMajor, 0) == 9 && attribute(cudaDevAttrComputeCapabilityMinor, 0) == 0;
  return result;
}

}  // namespace

// Code built for an older architecture does not wait for the previous kernel, so both GPU and code must be Hopper or
// later. Waiting blocks would take room from the kernels of other back ends.
bool begins_early() {
  static const bool possible = [] {
    cudaFuncAttributes code{};
    return attribute(cudaDevAttrComputeCapabilityMajor, 0) >= 9 &&
           cudaFuncGetAttributes(&code, sample_kernel) == cudaSuccess && code.ptxVersion >= 90;
  }();
  return possible && !gpu_shared;
}

int max_shared_memory() {
  static const int bytes = attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, 0);
  return bytes;
}

void allow_shared_memory(const void* kernel, int bytes, const char* what) {
  const cudaError_t status = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  if (status == cudaErrorInvalidValue) {
    cudaGetLastError();
    throw Error(ExitCode::no_gpu, std::string(what) + " needs " + std::to_string(bytes >> 10) +
                                      " KiB of shared memory a block, more than this GPU has at this size; take "
                                      "narrower heads, or use --device cpu");
  }
  check_cuda(status, what);
}

unsigned multiprocessors() {
  static const int count = attribute(cudaDevAttrMultiProcessorCount, 1);
  return unsigned(count);
}

void set_gpu_shared(bool is) { gpu_shared = is; }
bool is_gpu_shared() { return gpu_shared; }

bool has_warpgroups() { return warpgroups_wanted && gpu_has_warpgroups(); }

}  // namespace afterglow::device

namespace afterglow {

bool cuda_use_warpgroups(bool wanted) {
  device::warpgroups_wanted = wanted;
  return device::gpu_has_warpgroups();
}

}  // namespace afterglow
