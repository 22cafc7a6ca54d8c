// Downloads, widened where they are narrow.
#include "core/backend/host_numbers.h"

namespace afterglow {

namespace {

/// `floats` holds what is on its way.
void download(Backend& backend, const Tensor& tensor, std::vector<double>& values, std::vector<float>& floats) {
  values.resize(static_cast<std::size_t>(tensor.elements()));
  if (tensor.dtype == DType::f64) return backend.download(values.data(), tensor);
  floats.resize(values.size());
  backend.download(floats.data(), tensor);
  values.assign(floats.begin(), floats.end());
}

}  // namespace

std::span<const double> HostReader::read(Backend& backend, const Tensor& tensor) {
  download(backend, tensor, values_, floats_);
  return values_;
}

std::vector<double> to_host(Backend& backend, const Tensor& tensor) {
  std::vector<double> values;
  std::vector<float> floats;
  download(backend, tensor, values, floats);
  return values;
}

}  // namespace afterglow
