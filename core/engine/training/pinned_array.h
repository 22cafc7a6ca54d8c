// An array in device memory and in pinned host memory.
#pragma once
#include <algorithm>
#include <vector>

#include "core/backend/backend.h"

namespace afterglow {

class PinnedArray : Immovable {
 public:
  PinnedArray(Backend& backend, const Shape& shape, DType dtype) : backend_(&backend) {
    const std::size_t bytes = static_cast<std::size_t>(shape.elements()) * size_of(dtype);
    device_ = Tensor(backend.allocate(bytes), shape, dtype);
    host_ = backend.allocate_host(bytes);
  }
  ~PinnedArray() {
    backend_->release(device_.data);
    backend_->release_host(host_);
  }

  const Tensor& device() const { return device_; }
  template <class T>
  T* host() const {
    return static_cast<T*>(host_);
  }
  /// Writes numbers to host memory from the first element on, converted to the array's float32 or float64.
  template <class Number>
  void put(const std::vector<Number>& numbers) const {
    if (device_.dtype == DType::f64) {
      std::ranges::copy(numbers, host<double>());
    } else {
      std::ranges::copy(numbers, host<float>());
    }
  }
  Transfer to_device() const { return brought_to(device_, host_); }
  Transfer to_host() const { return to_host(device_); }
  /// Transfers another tensor of this size to this array's host memory.
  Transfer to_host(const Tensor& source) const { return brought_from(source, host_); }
  void queue_upload() { backend_->queue_upload(device_, host_); }
  void queue_download() { backend_->queue_download(host_, device_); }

 private:
  Backend* backend_;
  Tensor device_;
  void* host_;
};

}  // namespace afterglow
