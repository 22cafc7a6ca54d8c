// Elementwise work: kernels that call body(i) for every i below `count`, or body(row, lane) with one warp for every
// row.
#pragma once
#include "gpu/runtime/kernel.cuh"

namespace afterglow::device {

constexpr unsigned max_map_blocks = 4096;  // a few waves on the largest GPU; with more elements a thread takes several

template <class Body>
__global__ void __launch_bounds__(threads) map_kernel(unsigned count, Body body) {
  wait_for_previous_kernel();
  const unsigned step = gridDim.x * threads;
  for (std::size_t i = blockIdx.x * threads + threadIdx.x; i < count; i += step) body(unsigned(i));
}

template <class Body>
void map(const CudaBackend& backend, const char* what, std::int64_t count, const Body& body) {
  if (count == 0) return;
  launch(backend, what, map_kernel<Body>, at_most(blocks_for(count, threads), max_map_blocks), threads, unsigned(count),
         body);
}

template <class Body>
__global__ void __launch_bounds__(threads) rows_kernel(unsigned rows, Body body) {
  wait_for_previous_kernel();
  const unsigned row = blockIdx.x * warps + threadIdx.x / 32;
  if (row < rows) body(row, threadIdx.x % 32);
}

template <class Body>
void map_rows(const CudaBackend& backend, const char* what, std::int64_t rows, const Body& body) {
  if (rows > 0) launch(backend, what, rows_kernel<Body>, blocks_for(rows, warps), threads, unsigned(rows), body);
}

}  // namespace afterglow::device
