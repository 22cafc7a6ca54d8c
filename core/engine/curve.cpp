// Append-only storage behind published curves.
#include "core/engine/curve.h"

#include <algorithm>

namespace afterglow {

namespace {
std::shared_ptr<double[]> copy_of(const double* values, std::size_t size, std::size_t capacity) {
  std::shared_ptr<double[]> copy(new double[capacity]);
  std::copy(values, values + size, copy.get());
  return copy;
}
}  // namespace

void GrowingCurve::append(double value) {
  if (size_ == capacity_) {
    capacity_ = std::max<std::size_t>(256, 2 * capacity_);
    values_ = copy_of(values_.get(), size_, capacity_);
  }
  values_[size_++] = value;
}

// The old storage may still be read beyond `size`, so what follows goes into new storage.
void GrowingCurve::truncate(std::size_t size) {
  if (size >= size_) return;
  values_ = copy_of(values_.get(), size, std::max<std::size_t>(capacity_, 256));
  capacity_ = std::max<std::size_t>(capacity_, 256);
  size_ = size;
}

}  // namespace afterglow
