// What this GPU and the code built for it can do.
#include <atomic>

#include "gpu/device/crowding.h"
#include "gpu/device/launch.cuh"
#include "gpu/device/warpgroup_switch.h"

namespace afterglow::device {

namespace {

__global__ void sample_kernel() {}

std::atomic<bool> warpgroups_wanted = true, crowded = false;

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

// Code built for an older architecture does not wait by itself, so both the GPU and the code must be of Hopper or
// later. Blocks that wait for the kernel before them take room from the kernels of other back ends.
bool begins_early() {
  static const bool possible = [] {
    int device = 0, major = 0;
    cudaFuncAttributes code{};
    return cudaGetDevice(&device) == cudaSuccess &&
           cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) == cudaSuccess &&
           cudaFuncGetAttributes(&code, sample_kernel) == cudaSuccess && major >= 9 && code.ptxVersion >= 90;
  }();
  return possible && !crowded;
}

int most_shared_memory() {
  static const int bytes = [] {
    int device = 0, most = 0;
    const bool is_known = cudaGetDevice(&device) == cudaSuccess &&
                          cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device) == cudaSuccess;
    return is_known ? most : 0;
  }();
  return bytes;
}

void set_crowded(bool is) { crowded = is; }
bool is_crowded() { return crowded; }

bool has_warpgroups() { return warpgroups_wanted && gpu_has_warpgroups(); }

}  // namespace afterglow::device

namespace afterglow {

bool cuda_use_warpgroups(bool wanted) {
  device::warpgroups_wanted = wanted;
  return device::gpu_has_warpgroups();
}

}  // namespace afterglow
