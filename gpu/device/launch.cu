// What this GPU and the code built for it can do.
#include "gpu/device/launch.cuh"

namespace afterglow::device {

namespace {

__global__ void sample_kernel() {}

}  // namespace

// Code built for an older architecture does not wait by itself, so both the GPU and the code must be of Hopper or
// later.
bool begins_early() {
  static const bool result = [] {
    int device = 0, major = 0;
    cudaFuncAttributes code{};
    return cudaGetDevice(&device) == cudaSuccess &&
           cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) == cudaSuccess &&
           cudaFuncGetAttributes(&code, sample_kernel) == cudaSuccess && major >= 9 && code.ptxVersion >= 90;
  }();
  return result;
}

bool has_warpgroups() {
  static const bool result = [] {
    int device = 0, major = 0, minor = 0;
    return cudaGetDevice(&device) == cudaSuccess &&
           cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) == cudaSuccess &&
           cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device) == cudaSuccess && major == 9 &&
           minor == 0;
  }();
  return result;
}

}  // namespace afterglow::device
