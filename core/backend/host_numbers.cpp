// Downloads, widened where they are narrow.
#include "core/backend/host_numbers.h"

#include <algorithm>

namespace afterglow {

namespace {

/// `floats` holds what is on its way: a piece at a time, as fresh memory for all of it costs more than the transfer.
void download(Backend& backend, const Tensor& tensor, std::vector<double>& values, std::vector<float>& floats) {
  if (tensor.dtype == DType::f64) {
    values.resize(static_cast<std::size_t>(tensor.elements()));
    return backend.download(values.data(), tensor);
  }
  constexpr std::int64_t piece = std::int64_t{1} << 22;
  values.clear();
  values.reserve(static_cast<std::size_t>(tensor.elements()));
  for (std::int64_t first = 0; first < tensor.elements(); first += piece) {
    const std::int64_t count = std::min(piece, tensor.elements() - first);
    floats.resize(static_cast<std::size_t>(count));
    backend.download(floats.data(), Tensor(tensor.as<float>() + first, {count}, tensor.dtype));
    values.insert(values.end(), floats.begin(), floats.end());
  }
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
