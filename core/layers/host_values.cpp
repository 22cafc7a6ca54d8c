// Transfers captured values between host and device.
#include "core/layers/host_values.h"

namespace afterglow {

Tensor gathered(Tape& tape, const Tensor& columns) {
  const Tensor whole = tape.scratch(columns.shape, columns.dtype);
  tape.backend().copy(whole, columns);
  return whole;
}

std::vector<double> to_host(Tape& tape, const Var& value) { return to_host(tape.backend(), value.value); }

std::vector<double> gradient_to_host(Tape& tape, const Var& value) {
  return to_host(tape.backend(), tape.gradient_of(value));
}

Tensor to_device(Tape& tape, const Shape& shape, DType dtype, std::span<const double> values) {
  tape.note_host_work();
  const Tensor tensor = tape.scratch(shape, dtype);
  upload_numbers(tape.backend(), tensor, values);
  return tensor;
}

}  // namespace afterglow
