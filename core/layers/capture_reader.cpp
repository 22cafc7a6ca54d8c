// Downloads captures and cuts them into blocks.
#include "core/layers/capture_reader.h"

#include <algorithm>

#include "core/io/named.h"
#include "core/layers/host_values.h"

namespace afterglow {

std::vector<double> CaptureReader::block(const std::string& name, int head, int heads) const {
  return tail(name, head, heads, static_cast<std::int64_t>(values(name).size()) / std::max(heads, 1));
}

std::vector<double> CaptureReader::tail(const std::string& name, int head, int heads, std::int64_t size) const {
  const std::vector<double>& all = values(name);
  const std::size_t block = all.size() / static_cast<std::size_t>(std::max(heads, 1));
  const std::size_t end = block * static_cast<std::size_t>(head + 1);
  if (static_cast<std::size_t>(size) > block || end > all.size()) return {};
  return {all.begin() + static_cast<std::ptrdiff_t>(end - static_cast<std::size_t>(size)),
          all.begin() + static_cast<std::ptrdiff_t>(end)};
}

std::vector<double> CaptureReader::columns(const std::string& name, int rows, std::int64_t width, std::int64_t first,
                                           std::int64_t count) const {
  const std::vector<double>& all = values(name);
  if (static_cast<std::int64_t>(all.size()) < rows * width || first + count > width) return {};
  std::vector<double> result;
  result.reserve(static_cast<std::size_t>(rows * count));
  for (int row = 0; row < rows; ++row) {
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(row * width + first);
    result.insert(result.end(), begin, begin + static_cast<std::ptrdiff_t>(count));
  }
  return result;
}

const std::vector<double>& CaptureReader::values(const std::string& name) const {
  for (const auto& [known, numbers] : fetched_) {
    if (known == name) return numbers;
  }
  std::vector<double> numbers;
  for (const Capture& capture : tape_->captures()) {
    if (capture.name == name) numbers = download(capture.value);
  }
  return fetched_.emplace_back(name, std::move(numbers)).second;
}

Shape CaptureReader::shape(const std::string& name) const {
  const Capture* capture = find_by(tape_->captures(), name, &Capture::name);
  return capture ? capture->value.shape : Shape();
}

std::vector<double> CaptureReader::download(const Tensor& tensor) const { return to_host(*backend_, tensor); }

}  // namespace afterglow
