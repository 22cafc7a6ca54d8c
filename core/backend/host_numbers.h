// Numbers of a device's tensors on the host, in float64 whatever their type.
#pragma once
#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "core/backend/backend.h"

namespace afterglow {

/// The numbers of a float32 or float64 tensor, whose rows may be strided.
std::vector<double> to_host(Backend& backend, const Tensor& tensor);
/// Writes numbers into a float32 or float64 tensor.
void upload_numbers(Backend& backend, const Tensor& to, std::span<const double> values);
/// As to_host, into memory that is there: fresh memory for millions of numbers costs more than their transfer.
class HostReader {
 public:
  /// Valid until the next one is read.
  std::span<const double> read(Backend& backend, const Tensor& tensor);

 private:
  std::vector<double> values_;
  std::vector<float> floats_;
};

/// Numbers as a tensor held them, of float32 half the memory of float64, until there is time to widen them.
struct StoredNumbers {
  DType dtype = DType::f32;  ///< f32 or f64
  std::vector<std::byte> bytes;
};
/// The numbers of a contiguous float32 or float64 tensor.
StoredNumbers stored_numbers(Backend& backend, const Tensor& tensor);
/// Calls `meanwhile`, where given, after each piece.
std::vector<double> to_doubles(const StoredNumbers& numbers, const std::function<void()>& meanwhile = {});

}  // namespace afterglow
