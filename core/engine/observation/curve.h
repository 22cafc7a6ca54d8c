// A curve that one thread appends to while others read published views: appending never moves what a reader holds, so
// publishing costs the same at step 100 and at step 1,000,000.
#pragma once
#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>

#include "core/figure/values.h"

namespace afterglow {

class GrowingCurve {
 public:
  void append(double value) {
    if (size_ == capacity_) {
      // After the first growth there is room for a long run at once. Unwritten pages take no memory, whereas doubling
      // fragments it.
      constexpr std::size_t first_capacity = 256, long_capacity = std::size_t{1} << 20;
      capacity_ = capacity_ == 0 ? first_capacity : std::max(long_capacity, 2 * capacity_);
      move_to_new_storage();
    }
    values_[size_++] = value;
  }
  /// Keeps the first `size` values; existing views stay unchanged.
  void truncate(std::size_t size) {
    if (size >= size_) return;
    size_ = size;
    move_to_new_storage();  // a reader may hold the old storage beyond `size`
  }
  std::size_t size() const { return size_; }
  /// A view of all values so far; later values do not change it.
  Values view() const { return {values_, size_}; }

 private:
  void move_to_new_storage() {
    std::shared_ptr<double[]> copy = std::make_shared_for_overwrite<double[]>(capacity_);
    std::copy_n(values_.get(), size_, copy.get());
    values_ = std::move(copy);
  }

  std::shared_ptr<double[]> values_;
  std::size_t size_ = 0, capacity_ = 0;
};

}  // namespace afterglow
