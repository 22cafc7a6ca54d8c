// Properties of this GPU on which the sizes of launches depend.
#pragma once

namespace afterglow::device {

/// The number of multiprocessors.
unsigned multiprocessors();

/// Whether several back ends share the GPU, set from `Device::expect_side_by_side`. Then kernels use few resources, so
/// that blocks of others fit next to theirs, and none begins early: its waiting blocks would take room.
void set_gpu_shared(bool is_shared);
bool is_gpu_shared();

}  // namespace afterglow::device
