// Shape arithmetic.
#include "core/tensor/shape.h"

#include <algorithm>

#include "core/io/error.h"

namespace afterglow {
namespace {
void check_rank(std::size_t rank) {
  if (rank > static_cast<std::size_t>(Shape::max_rank))
    throw Error(ExitCode::failure, "a tensor has ", rank, " axes; at most 5 are supported");
}
}  // namespace

Shape::Shape(std::initializer_list<std::int64_t> extents) {
  check_rank(extents.size());
  for (const std::int64_t extent : extents) extents_[rank_++] = extent;
}

Shape::Shape(const std::vector<std::int64_t>& extents) {
  check_rank(extents.size());
  for (const std::int64_t extent : extents) extents_[rank_++] = extent;
}

std::int64_t Shape::elements() const {
  std::int64_t product = 1;
  for (int axis = 0; axis < rank_; ++axis) product *= extents_[axis];
  return product;
}

Shape Shape::with_last(std::int64_t extent) const {
  Shape result = *this;
  result.extents_[rank_ - 1] = extent;
  return result;
}

Shape Shape::tail() const {
  Shape result;
  for (int axis = 1; axis < rank_; ++axis) result.extents_[result.rank_++] = extents_[axis];
  return result;
}

std::string Shape::text() const {
  std::string result = "[";
  for (int axis = 0; axis < rank_; ++axis) {
    if (axis > 0) result += ", ";
    result += std::to_string(extents_[axis]);
  }
  return result + "]";
}

bool Shape::operator==(const Shape& other) const {
  return rank_ == other.rank_ && std::equal(extents_.begin(), extents_.begin() + rank_, other.extents_.begin());
}

}  // namespace afterglow
