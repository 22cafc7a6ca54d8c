// Device memory and handle of one cuSOLVER call.
#pragma once
#include <cuda_runtime_api.h>
#include <cusolverDn.h>

#include <cstddef>

#include "gpu/cuda.h"

namespace afterglow {

/// solve(handle), or false without a GPU.
template <class Solve>
bool with_solver(const Solve& solve) {
  cusolverDnHandle_t solver = nullptr;
  if (cuda_devices().devices.empty() || cusolverDnCreate(&solver) != CUSOLVER_STATUS_SUCCESS) return false;
  const bool solved = solve(solver);
  cusolverDnDestroy(solver);
  return solved;
}

class SolverMemory {
 public:
  explicit SolverMemory(std::size_t bytes) {
    if (cudaMalloc(&address_, bytes > 0 ? bytes : 1) != cudaSuccess) address_ = nullptr;
  }
  ~SolverMemory() { cudaFree(address_); }
  SolverMemory(const SolverMemory&) = delete;
  SolverMemory& operator=(const SolverMemory&) = delete;
  bool is_allocated() const { return address_ != nullptr; }
  template <class T>
  T* as() const {
    return static_cast<T*>(address_);
  }

 private:
  void* address_ = nullptr;
};

}  // namespace afterglow
