// A back end: a device and all kernels on it. Nothing above core/backend knows which one runs.
#pragma once
#include "core/backend/device.h"
#include "core/backend/kernels.h"

namespace afterglow {

class Backend : public Device, public Kernels {};

/// Kernels::linear_backward by other kernels of the list: `linear_gradients` beside, then `gemm_sum`.
void linear_backward_by_parts(Backend& backend, const LinearBackward& projections);

/// The complete reference. threads <= 0 takes the number of cores.
std::unique_ptr<Backend> make_cpu_backend(int threads = 0);

}  // namespace afterglow
