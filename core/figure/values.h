// An immutable shared array of numbers.
#pragma once
#include <cstddef>
#include <initializer_list>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace afterglow {

/// Numbers shared by figures, observations and frames: drawing copies no points. Immutable, cheap to copy;
/// `line.curve.x = std::vector<double>{0, 1, 2}` takes a vector, the second constructor shares an array to which its
/// owner may append after `size`.
class Values {
 public:
  Values() = default;
  Values(std::vector<double> numbers);
  Values(std::initializer_list<double> numbers) : Values(std::vector<double>(numbers)) {}
  Values(std::shared_ptr<const double[]> numbers, std::size_t size) : numbers_(std::move(numbers)), size_(size) {}

  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  double back() const { return (*this)[size_ - 1]; }
  double operator[](std::size_t i) const { return numbers_[static_cast<std::ptrdiff_t>(i)]; }
  std::span<const double> span() const { return {numbers_.get(), size_}; }
  /// The first `count` numbers, or all where there are fewer; shares the array.
  Values first(std::size_t count) const { return {numbers_, count < size_ ? count : size_}; }

 private:
  std::shared_ptr<const double[]> numbers_{};
  std::size_t size_ = 0;
};

}  // namespace afterglow
