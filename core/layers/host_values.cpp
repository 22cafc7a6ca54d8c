// Transfers of capture values.
#include "core/layers/host_values.h"

namespace afterglow {

Tensor gathered(Tape& tape, const Tensor& columns) {
  const Tensor whole = tape.scratch(columns.shape, columns.dtype);
  tape.backend().copy(whole, columns);
  return whole;
}

std::vector<double> to_host(Backend& backend, const Tensor& tensor) {
  std::vector<double> values(static_cast<std::size_t>(tensor.elements()));
  if (tensor.dtype == DType::f64) {
    backend.download(values.data(), tensor);
    return values;
  }
  std::vector<float> floats(values.size());
  backend.download(floats.data(), tensor);
  values.assign(floats.begin(), floats.end());
  return values;
}

Tensor to_device(Tape& tape, const Shape& shape, DType dtype, std::span<const double> values) {
  const Tensor tensor = tape.scratch(shape, dtype);
  if (dtype == DType::f64) {
    tape.backend().upload(tensor, values.data());
  } else {
    tape.backend().upload(tensor, std::vector<float>(values.begin(), values.end()).data());
  }
  return tensor;
}

}  // namespace afterglow
