// A curve that one thread appends to while others read published views: appending never moves what a reader holds, so
// publishing costs the same at step 100 and at step 1,000,000.
#pragma once
#include <cstddef>
#include <memory>

#include "core/figure/values.h"

namespace afterglow {

class GrowingCurve {
 public:
  void append(double value);
  /// Keeps the first `size` values; existing views stay unchanged.
  void truncate(std::size_t size);
  std::size_t size() const { return size_; }
  /// A view of all values so far; later values do not change it.
  Values view() const { return {values_, size_}; }

 private:
  std::shared_ptr<double[]> values_;
  std::size_t size_ = 0, capacity_ = 0;
};

}  // namespace afterglow
