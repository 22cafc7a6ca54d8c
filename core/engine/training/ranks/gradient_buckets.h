// The gradient in slices, in the order in which the way back completes them.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "core/autograd/parameter.h"

namespace afterglow {

/// Parameters that follow each other in the flat buffers, and their gradient.
struct GradientBucket {
  int first = 0, end = 0;   ///< numbers of the parameters
  std::int64_t offset = 0;  ///< of the first element in the flat buffers
  Tensor gradient;
  std::unique_ptr<DeviceEvent> complete;  ///< the backward pass sets it where the gradient is complete
};

/// The whole gradient in at most eight buckets of about the same size, the last parameters first: the backward pass
/// ends at the first ones.
std::vector<GradientBucket> gradient_buckets(const ParameterStore& store);

}  // namespace afterglow
