// Properties of this GPU on which the sizes of launches depend.
#pragma once

namespace afterglow::device {

/// The number of multiprocessors.
unsigned multiprocessors();

/// Set from `Device::expect_side_by_side`: waiting blocks of kernels that begin early would take room from others.
void set_gpu_shared(bool is_shared);

}  // namespace afterglow::device
