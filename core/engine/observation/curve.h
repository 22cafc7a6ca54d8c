// A curve that one thread appends to while others read what was published: appending never moves what a reader holds,
// so publishing costs the same at step 100 and at step 1,000,000.
#pragma once
#include <cstddef>
#include <memory>

namespace afterglow {

/// What was published of a curve: values [0, size), immutable.
struct PublishedCurve {
  std::shared_ptr<const double[]> values;
  std::size_t size = 0;
  double operator[](std::size_t i) const { return values[i]; }
  bool empty() const { return size == 0; }
  double back() const { return values[size - 1]; }
};

class GrowingCurve {
 public:
  void append(double value);
  /// Keeps the first `size` values; readers keep what they have.
  void truncate(std::size_t size);
  std::size_t size() const { return size_; }
  PublishedCurve view() const { return {values_, size_}; }

 private:
  std::shared_ptr<double[]> values_;
  std::size_t size_ = 0, capacity_ = 0;
};

}  // namespace afterglow
