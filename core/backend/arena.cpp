// The bump arena.
#include "core/backend/arena.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <utility>

namespace afterglow {
namespace {
constexpr std::size_t alignment = 256;
constexpr std::size_t smallest_block = std::size_t{1} << 20;
std::size_t aligned(std::size_t bytes) {
  return (std::max<std::size_t>(bytes, 1) + alignment - 1) / alignment * alignment;
}
}  // namespace

Arena::~Arena() { release_all(); }

Tensor Arena::allocate(const Shape& shape, DType dtype, std::int64_t row_stride) {
  const std::int64_t elements = row_stride > 0 ? shape.rows() * row_stride : shape.elements();
  const std::size_t bytes = aligned(static_cast<std::size_t>(elements) * size_of(dtype));
  std::byte* address = nullptr;
  const auto piece = std::ranges::find_if(free_, [&](const Block& block) { return block.size >= bytes; });
  if (piece != free_.end()) {
    address = std::exchange(piece->address, piece->address + bytes);
    piece->size -= bytes;
  } else {
    address = advance(bytes);
  }
  if (poison_ && (widened(dtype) == DType::f32 || dtype == DType::f64))
    backend_->fill({address, {elements}, dtype}, std::numeric_limits<double>::quiet_NaN());
  Tensor tensor(address, shape, dtype);
  if (row_stride > 0) tensor.row_stride = row_stride;
  return tensor;
}

std::byte* Arena::advance(std::size_t bytes) {
  for (; block_ < blocks_.size() && offset_ + bytes > blocks_[block_].size; ++block_) offset_ = 0;  // too small
  if (block_ == blocks_.size()) {
    const std::size_t size = std::max({bytes, smallest_block, capacity() / 4});
    blocks_.push_back({static_cast<std::byte*>(backend_->allocate(size)), size});
    offset_ = 0;
  }
  taken_ += bytes;
  used_ = std::max(used_, taken_);
  return blocks_[block_].address + std::exchange(offset_, offset_ + bytes);
}

template <class Use>
void Arena::for_each_piece(const Mark& from, const Mark& to, const Use& use) const {
  for (std::size_t b = from.block; b < blocks_.size() && b <= to.block; ++b) {
    const std::size_t begin = b == from.block ? from.offset : 0, end = b == to.block ? to.offset : blocks_[b].size;
    if (begin < end) use(Block{blocks_[b].address + begin, end - begin});
  }
}

std::size_t Arena::bytes_between(const Mark& from, const Mark& to) const {
  std::size_t bytes = 0;
  for_each_piece(from, to, [&](const Block& piece) { bytes += piece.size; });
  return bytes;
}

void Arena::recycle(const Mark& from, const Mark& to) {
  for_each_piece(from, to, [&](const Block& piece) { free_.push_back(piece); });
}

Arena::Moment Arena::now() const { return {mark(), taken_, free_}; }

void Arena::go_back(const Moment& then) {
  free_ = then.free;
  block_ = then.mark.block;
  offset_ = then.mark.offset;
  taken_ = then.taken;
}

bool Arena::lies_between(const void* address, const Mark& from, const Mark& to) const {
  bool lies = false;
  const auto* at = static_cast<const std::byte*>(address);
  for_each_piece(from, to, [&](const Block& piece) {
    lies = lies || (!std::less<>()(at, piece.address) && std::less<>()(at, piece.address + piece.size));
  });
  return lies;
}

void Arena::rewind() {
  free_.clear();
  if (blocks_.size() > 1) {
    const std::size_t needed = used_;
    release_all();
    blocks_.push_back({static_cast<std::byte*>(backend_->allocate(needed)), needed});
  }
  block_ = offset_ = taken_ = used_ = 0;
}

void Arena::release() {
  free_.clear();
  release_all();
  block_ = offset_ = taken_ = used_ = 0;
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
