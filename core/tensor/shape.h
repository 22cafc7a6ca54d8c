// The extents of a tensor: up to five axes, row-major, in an array of fixed size so that a shape never allocates.
#pragma once
#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

namespace afterglow {

class Shape {
 public:
  static constexpr int max_rank = 5;

  Shape() = default;
  Shape(std::initializer_list<std::int64_t> extents);
  explicit Shape(const std::vector<std::int64_t>& extents);

  int rank() const { return rank_; }
  /// Extent of an axis; negative axes count from the end (-1 is the last).
  std::int64_t operator[](int axis) const { return extents_[axis < 0 ? axis + rank_ : axis]; }
  std::int64_t last() const { return rank_ == 0 ? 1 : extents_[rank_ - 1]; }
  /// Number of elements; 1 for a scalar (rank 0).
  std::int64_t elements() const;
  /// Number of rows when all axes but the last are taken together.
  std::int64_t rows() const { return last() == 0 ? 0 : elements() / last(); }
  /// The same shape with another last extent.
  Shape with_last(std::int64_t extent) const;
  /// The shape without its first axis.
  Shape tail() const;
  std::string text() const;  ///< for messages: "[2, 64, 128]"
  std::vector<std::int64_t> extents() const { return {extents_.begin(), extents_.begin() + rank_}; }
  bool operator==(const Shape& other) const;

 private:
  std::array<std::int64_t, max_rank> extents_{};
  int rank_ = 0;
};

}  // namespace afterglow
