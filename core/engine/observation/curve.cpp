// Append-only storage behind published curves.
#include "core/engine/observation/curve.h"

#include <algorithm>

namespace afterglow {

namespace {

constexpr std::size_t first_capacity = 256;
// After the first growth reserve room for a long run at once. Unwritten pages take no memory, whereas doubling
// fragments it.
constexpr std::size_t long_capacity = std::size_t{1} << 20;

std::shared_ptr<double[]> copy_of(const double* values, std::size_t size, std::size_t capacity) {
  std::shared_ptr<double[]> copy = std::make_shared_for_overwrite<double[]>(capacity);
  std::copy(values, values + size, copy.get());
  return copy;
}

}  // namespace

void GrowingCurve::append(double value) {
  if (size_ == capacity_) {
    capacity_ = capacity_ == 0 ? first_capacity : std::max(long_capacity, 2 * capacity_);
    values_ = copy_of(values_.get(), size_, capacity_);
  }
  values_[size_++] = value;
}

// A reader may hold the old storage beyond `size`, so later values go into new storage.
void GrowingCurve::truncate(std::size_t size) {
  if (size >= size_) return;
  values_ = copy_of(values_.get(), size, capacity_);
  size_ = size;
}

}  // namespace afterglow
