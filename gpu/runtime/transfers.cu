// Transfers. A kernel copies small arrays in pinned memory, several at once: a copy engine would delay the kernels
// around each copy by some microseconds, and synchronise the steps of several back ends.
#include <algorithm>

#include "gpu/runtime/kernel.cuh"

namespace afterglow {

using namespace device;

namespace {

constexpr std::size_t small = std::size_t{64} << 10;  // bytes; for larger arrays the copy engines are as fast
constexpr unsigned max_arrays = 8;
constexpr unsigned width = sizeof(unsigned);

struct SmallArrays {
  Transfer arrays[max_arrays];
  unsigned count;
};

bool is_aligned(const Transfer& array) {
  return (reinterpret_cast<std::uintptr_t>(array.to) | reinterpret_cast<std::uintptr_t>(array.from)) % width == 0;
}

// One row of blocks for each array; a thread copies a word, or the last bytes.
__global__ void __launch_bounds__(threads) copy_small_kernel(SmallArrays small) {
  wait_for_previous_kernel();
  const Transfer array = small.arrays[blockIdx.y];
  const std::size_t word = blockIdx.x * threads + threadIdx.x, begin = word * width;
  if (begin + width <= array.bytes) {
    static_cast<unsigned*>(array.to)[word] = static_cast<const unsigned*>(array.from)[word];
    return;
  }
  for (std::size_t byte = begin; byte < array.bytes; ++byte)
    static_cast<char*>(array.to)[byte] = static_cast<const char*>(array.from)[byte];
}

void copy_small(const SmallArrays& small, const CudaBackend& backend) {
  std::size_t max_bytes = 0;
  for (unsigned i = 0; i < small.count; ++i) max_bytes = std::max(max_bytes, small.arrays[i].bytes);
  const unsigned blocks = blocks_for(std::int64_t(max_bytes), std::int64_t{threads} * width);
  launch(backend, "copying small arrays", copy_small_kernel, dim3(blocks, small.count), threads, small);
}

}  // namespace

void CudaBackend::queue_transfers(std::span<const Transfer> arrays) {
  SmallArrays together{};
  const auto copy_together = [&] {
    if (together.count == 0) return;
    copy_small(together, *this);
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
    if (together.count == max_arrays) copy_together();
  }
  copy_together();
}

}  // namespace afterglow
