// The gradient of a division by a row's length, for kernels that divide rows or heads.
#pragma once
#include "gpu/tile/device.cuh"

namespace afterglow::device {

/// dx = dy / (|x| + eps) - x (x . dy) / (|x| (|x| + eps)^2), of one row.
struct UnitSlope {
  float inverse, pull;
  /// From |x| and x . dy.
  __device__ UnitSlope(float length, float overlap, float eps)
      : inverse(1.0f / (length + eps)), pull(length > 0.0f ? overlap * inverse * inverse / length : 0.0f) {}
  __device__ float of(float x, float dy) const { return dy * inverse - x * pull; }
};

}  // namespace afterglow::device
