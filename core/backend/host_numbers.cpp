// Downloads numbers of a device and widens float32 to float64.
#include "core/backend/host_numbers.h"

#include <algorithm>
#include <cstring>

namespace afterglow {
namespace {

/// `floats` is the buffer for one piece at a time: fresh memory for the whole array costs more than the transfer.
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

void upload_numbers(Backend& backend, const Tensor& to, std::span<const double> values) {
  if (to.dtype == DType::f64) return backend.upload(to, values.data());
  backend.upload(to, std::vector<float>(values.begin(), values.end()).data());
}

std::span<const double> HostReader::read(Backend& backend, const Tensor& tensor) {
  download(backend, tensor, values_, floats_);
  return values_;
}

StoredNumbers stored_numbers(Backend& backend, const Tensor& tensor) {
  StoredNumbers numbers{tensor.dtype, std::vector<std::byte>(tensor.bytes())};
  backend.download(numbers.bytes.data(), tensor);
  return numbers;
}

std::vector<double> to_doubles(const StoredNumbers& numbers, const std::function<void()>& meanwhile) {
  constexpr std::size_t piece = std::size_t{1} << 20;
  const std::size_t size = size_of(numbers.dtype), count = numbers.bytes.size() / size;
  std::vector<double> values;
  values.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    const std::byte* const from = numbers.bytes.data() + i * size;
    float narrow = 0;
    double value = 0;
    if (numbers.dtype == DType::f32) {
      std::memcpy(&narrow, from, size);
      value = narrow;
    } else {
      std::memcpy(&value, from, size);
    }
    values.push_back(value);
    if ((i + 1) % piece == 0 && meanwhile) meanwhile();
  }
  return values;
}

std::vector<double> to_host(Backend& backend, const Tensor& tensor) {
  std::vector<double> values;
  std::vector<float> floats;
  if (tensor.contiguous() || tensor.elements() == 0) {
    download(backend, tensor, values, floats);
    return values;
  }
  const std::int64_t rows = tensor.rows(), columns = tensor.columns(), stride = tensor.row_stride;
  download(backend, Tensor(tensor.data, {(rows - 1) * stride + columns}, tensor.dtype), values, floats);
  for (std::int64_t row = 1; row < rows; ++row)
    std::copy_n(values.begin() + row * stride, columns, values.begin() + row * columns);
  values.resize(static_cast<std::size_t>(rows * columns));
  return values;
}

}  // namespace afterglow
