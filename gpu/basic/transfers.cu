// Transfers. Small arrays in pinned memory are copied by a kernel, several at once: the copy engines would have the
// kernels around wait some microseconds for each, and steps of several back ends for one another.
#include <algorithm>

#include "gpu/cuda_backend.h"
#include "gpu/device/device.cuh"
#include "gpu/device/launch.cuh"

namespace afterglow {

using namespace device;

namespace {

constexpr std::size_t small = std::size_t{64} << 10;  // bytes; the engines are as fast for more
constexpr unsigned most_arrays = 8;
constexpr unsigned width = sizeof(unsigned);

struct SmallArrays {
  Transfer arrays[most_arrays];
  unsigned count;
};

bool is_aligned(const Transfer& array) {
  return (reinterpret_cast<std::uintptr_t>(array.to) | reinterpret_cast<std::uintptr_t>(array.from)) % width == 0;
}

// A column of blocks for each array, a word or the bytes of the last one for each thread.
__global__ void __launch_bounds__(threads) copy_small_kernel(SmallArrays small) {
  await_previous();
  const Transfer array = small.arrays[blockIdx.y];
  const std::size_t word = blockIdx.x * threads + threadIdx.x, begin = word * width;
  if (begin + width <= array.bytes) {
    static_cast<unsigned*>(array.to)[word] = static_cast<const unsigned*>(array.from)[word];
    return;
  }
  for (std::size_t byte = begin; byte < array.bytes; ++byte)
    static_cast<char*>(array.to)[byte] = static_cast<const char*>(array.from)[byte];
}

void copy_small(const SmallArrays& small, cudaStream_t stream) {
  std::size_t longest = 0;
  for (unsigned i = 0; i < small.count; ++i) longest = std::max(longest, small.arrays[i].bytes);
  const unsigned blocks = blocks_for(static_cast<std::int64_t>(longest), std::int64_t{threads} * width);
  launch(copy_small_kernel, dim3(blocks, small.count), threads, 0, stream, small);
}

}  // namespace

void CudaBackend::queue_transfers(std::span<const Transfer> arrays) {
  SmallArrays together{};
  const auto copy_together = [&] {
    if (together.count == 0) return;
    copy_small(together, stream());
    launched("copying small arrays");
    together.count = 0;
  };
  for (const Transfer& array : arrays) {
    if (array.bytes == 0) continue;
    const bool is_pinned = host_sizes_.contains(array.from) || host_sizes_.contains(array.to);
    if (!is_pinned || array.bytes > small || !is_aligned(array)) {
      check_cuda(cudaMemcpyAsync(array.to, array.from, array.bytes, cudaMemcpyDefault, stream()),
                 "copying between host and GPU");
      continue;
    }
    together.arrays[together.count++] = array;
    if (together.count == most_arrays) copy_together();
  }
  copy_together();
}

}  // namespace afterglow
