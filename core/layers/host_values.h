// Small tensors that a layer computes on the host while it is being captured; never in a training step.
#pragma once
#include <span>
#include <vector>

#include "core/autograd/tape.h"

namespace afterglow {

/// Columns of a wider tensor as a tensor of their own, valid until the tape begins anew.
Tensor gathered(Tape& tape, const Tensor& columns);
/// The numbers of a contiguous float32 or float64 tensor.
std::vector<double> to_host(Backend& backend, const Tensor& tensor);
/// The same into memory that is there: fresh memory for millions of numbers costs more than their transfer.
class HostReader {
 public:
  /// Valid until the next one is read.
  const std::vector<double>& read(Backend& backend, const Tensor& tensor);

 private:
  std::vector<double> values_;
  std::vector<float> floats_;
};
/// A tensor from host numbers, valid until the tape begins anew.
Tensor to_device(Tape& tape, const Shape& shape, DType dtype, std::span<const double> values);

}  // namespace afterglow
