// Transfers captured values between host and device.
#include "core/layers/host_values.h"

namespace afterglow {

Tensor gathered(Tape& tape, const Tensor& columns) {
  const Tensor whole = tape.scratch(columns.shape, columns.dtype);
  tape.backend().copy(whole, columns);
  return whole;
}

Tensor last_token(const Tensor& x) {
  const std::int64_t tokens = x.shape[1];
  const std::int64_t skipped = (tokens - 1) * x.row_stride * static_cast<std::int64_t>(size_of(x.dtype));
  Tensor last(static_cast<std::byte*>(x.data) + skipped, {x.shape[0], x.columns()}, x.dtype);
  last.row_stride = tokens * x.row_stride;
  return last;
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
