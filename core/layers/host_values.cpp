// Transfers of capture values.
#include "core/layers/host_values.h"

namespace afterglow {

Tensor gathered(Tape& tape, const Tensor& columns) {
  const Tensor whole = tape.scratch(columns.shape, columns.dtype);
  tape.backend().copy(whole, columns);
  return whole;
}

const std::vector<double>& HostReader::read(Backend& backend, const Tensor& tensor) {
  values_.resize(static_cast<std::size_t>(tensor.elements()));
  if (tensor.dtype == DType::f64) {
    backend.download(values_.data(), tensor);
    return values_;
  }
  floats_.resize(values_.size());
  backend.download(floats_.data(), tensor);
  values_.assign(floats_.begin(), floats_.end());
  return values_;
}

std::vector<double> to_host(Backend& backend, const Tensor& tensor) { return HostReader().read(backend, tensor); }

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
