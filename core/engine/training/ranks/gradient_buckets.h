// The gradient in slices, in the order in which the backward pass completes them.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "core/autograd/parameter.h"

namespace afterglow {

/// Consecutive parameters in the flat buffers, and their gradient.
struct GradientBucket {
  int first = 0, end = 0;   ///< indices of the parameters
  std::int64_t offset = 0;  ///< of the first element in the flat buffers
  Tensor gradient;
  std::unique_ptr<DeviceEvent> complete;  ///< recorded by the backward pass when the gradient is complete
};

/// The whole gradient in at most eight buckets of about the same size, the last parameters first, because the backward
/// pass reaches the first parameters last.
std::vector<GradientBucket> gradient_buckets(const ParameterStore& store);

}  // namespace afterglow
