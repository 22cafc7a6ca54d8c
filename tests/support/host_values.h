// Small tensors in a back end's memory, for tests.
#pragma once
#include <memory>
#include <vector>

#include "core/backend/backend.h"
#include "core/random/random.h"

namespace afterglow::testing {

/// Of a normal distribution.
inline std::vector<float> random_floats(std::int64_t count, std::uint64_t seed) {
  Random random(seed);
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) value = static_cast<float>(random.normal());
  return values;
}

/// Owns the memory of tensors that a test makes from host values.
class HostValues {
 public:
  explicit HostValues(Backend& backend) : backend_(&backend) {}
  ~HostValues() {
    for (void* address : owned_) backend_->release(address);
  }
  HostValues(const HostValues&) = delete;
  HostValues& operator=(const HostValues&) = delete;

  template <class T>
  Tensor tensor(const Shape& shape, DType dtype, const std::vector<T>& values) {
    owned_.push_back(backend_->allocate(values.size() * sizeof(T)));
    const Tensor result(owned_.back(), shape, dtype);
    backend_->upload(result, values.data());
    return result;
  }
  Tensor f64(const Shape& shape, const std::vector<double>& values) { return tensor(shape, DType::f64, values); }
  Tensor f32(const Shape& shape, const std::vector<float>& values) { return tensor(shape, DType::f32, values); }
  Tensor i32(const Shape& shape, const std::vector<std::int32_t>& values) { return tensor(shape, DType::i32, values); }

  template <class T>
  std::vector<T> read(const Tensor& tensor) const {
    std::vector<T> values(static_cast<std::size_t>(tensor.elements()));
    backend_->download(values.data(), tensor);
    return values;
  }

 private:
  Backend* backend_;
  std::vector<void*> owned_;
};

}  // namespace afterglow::testing
