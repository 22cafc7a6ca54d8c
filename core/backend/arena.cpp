// The bump arena.
#include "core/backend/arena.h"

#include <algorithm>
#include <limits>

namespace afterglow {

namespace {
constexpr std::size_t alignment = 256;
constexpr std::size_t smallest_block = std::size_t{1} << 20;
std::size_t aligned(std::size_t bytes) {
  return (std::max<std::size_t>(bytes, 1) + alignment - 1) / alignment * alignment;
}
}  // namespace

Arena::~Arena() { release_all(); }

Tensor Arena::allocate(const Shape& shape, DType dtype) {
  const std::size_t bytes = aligned(static_cast<std::size_t>(shape.elements()) * size_of(dtype));
  if (blocks_.empty() || offset_ + bytes > blocks_.back().size) {
    const std::size_t size = std::max({bytes, smallest_block, capacity() / 4});
    blocks_.push_back({static_cast<std::byte*>(backend_->allocate(size)), size});
    offset_ = 0;
  }
  Tensor tensor(blocks_.back().address + offset_, shape, dtype);
  offset_ += bytes;
  used_ += bytes;
  if (poison_ && (dtype == DType::f32 || dtype == DType::f64))
    backend_->fill(tensor, std::numeric_limits<double>::quiet_NaN());
  return tensor;
}

void Arena::rewind() {
  if (blocks_.size() > 1) {
    const std::size_t needed = used_;
    release_all();
    blocks_.push_back({static_cast<std::byte*>(backend_->allocate(needed)), needed});
  }
  offset_ = 0;
  used_ = 0;
}

void Arena::release() {
  release_all();
  offset_ = 0;
  used_ = 0;
}

std::size_t Arena::capacity() const {
  std::size_t total = 0;
  for (const Block& block : blocks_) total += block.size;
  return total;
}

void Arena::release_all() {
  for (const Block& block : blocks_) backend_->release(block.address);
  blocks_.clear();
}

}  // namespace afterglow
