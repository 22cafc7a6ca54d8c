// Properties of this GPU and of the code built for it.
#include <atomic>

#include "gpu/device/launch.cuh"
#include "gpu/device/occupancy.h"
#include "gpu/device/warpgroup_switch.h"

namespace afterglow::device {

namespace {

__global__ void sample_kernel() {}

std::atomic<bool> warpgroups_wanted = true, gpu_shared = false;

bool gpu_has_warpgroups() {
  static const bool result = [] {
    int device = 0, major = 0, minor = 0;
    return cudaGetDevice(&device) == cudaSuccess &&
           cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) == cudaSuccess &&
           cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device) == cudaSuccess && major == 9 &&
           minor == 0;
  }();
  return result;
}

}  // namespace

// Code built for an older architecture does not wait for the previous kernel, so both GPU and code must be Hopper or
// later. Waiting blocks would take room from the kernels of other back ends.
bool begins_early() {
  static const bool possible = [] {
    int device = 0, major = 0;
    cudaFuncAttributes code{};
    return cudaGetDevice(&device) == cudaSuccess &&
           cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) == cudaSuccess &&
           cudaFuncGetAttributes(&code, sample_kernel) == cudaSuccess && major >= 9 && code.ptxVersion >= 90;
  }();
  return possible && !gpu_shared;
}

int max_shared_memory() {
  static const int bytes = [] {
    int device = 0, bytes_of_block = 0;
    const bool is_known =
        cudaGetDevice(&device) == cudaSuccess &&
        cudaDeviceGetAttribute(&bytes_of_block, cudaDevAttrMaxSharedMemoryPerBlockOptin, device) == cudaSuccess;
    return is_known ? bytes_of_block : 0;
  }();
  return bytes;
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
