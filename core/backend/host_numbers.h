// Numbers of a device's tensors on the host, in float64 whatever their type.
#pragma once
#include <span>
#include <vector>

#include "core/backend/backend.h"

namespace afterglow {

/// The numbers of a contiguous float32 or float64 tensor.
std::vector<double> to_host(Backend& backend, const Tensor& tensor);
/// The same into memory that is there: fresh memory for millions of numbers costs more than their transfer.
class HostReader {
 public:
  /// Valid until the next one is read.
  std::span<const double> read(Backend& backend, const Tensor& tensor);

 private:
  std::vector<double> values_;
  std::vector<float> floats_;
};

}  // namespace afterglow
