// Whether several back ends share the GPU. Then kernels use few resources, so that blocks of others fit next to theirs;
// alone, they use many and end earlier.
#pragma once

namespace afterglow::device {

/// Set from `Device::expect_side_by_side`.
void set_gpu_shared(bool is_shared);
bool is_gpu_shared();

}  // namespace afterglow::device
