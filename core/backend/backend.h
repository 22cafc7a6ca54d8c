// A back end: a device and all kernels on it. Nothing above core/backend knows which one runs.
#pragma once
#include "core/backend/device.h"
#include "core/backend/kernels.h"

namespace afterglow {

class Backend : public Device, public Kernels {
 public:
  /// Another back end on the same device with streams of low priority: its kernels run concurrently with this one's on
  /// what those leave free, and each can access the other's memory. Null where the device does one thing at a time.
  virtual std::unique_ptr<Backend> low_priority_backend() { return nullptr; }
  /// `count` zeros, to be released by their address. Where the system gives empty pages, none is touched before it is
  /// written to: buffers that only training needs cost nothing until it begins.
  virtual Tensor allocate_zeros(std::int64_t count, DType dtype) {
    const Tensor tensor(allocate(static_cast<std::size_t>(count) * size_of(dtype)), {count}, dtype);
    fill(tensor, 0.0);
    return tensor;
  }
};

/// Kernels::linear_backward by other kernels of the list: `linear_gradients` on the side stream, then `gemm_sum`.
void linear_backward_by_parts(Backend& backend, const LinearBackward& projections);

/// The complete reference. threads <= 0 takes the number of cores.
std::unique_ptr<Backend> make_cpu_backend(int threads = 0);

}  // namespace afterglow
