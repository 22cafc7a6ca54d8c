// Append-only storage behind published curves.
#include "core/engine/observation/curve.h"

#include <algorithm>

namespace afterglow {

namespace {

constexpr std::size_t first_capacity = 256;
// Afterwards at once room for a long run. Pages that have not been written to take no memory, whereas storage that
// doubles again and again leaves behind what it has outgrown, in pieces too small to go back to the system.
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

// The old storage may still be read beyond `size`, so what follows goes into new storage.
void GrowingCurve::truncate(std::size_t size) {
  if (size >= size_) return;
  values_ = copy_of(values_.get(), size, capacity_);
  size_ = size;
}

}  // namespace afterglow
