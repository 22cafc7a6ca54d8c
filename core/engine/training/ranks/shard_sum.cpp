// A binary counter: two sums of equally many parts become one.
#include "core/engine/training/ranks/shard_sum.h"

#include <algorithm>
#include <span>
#include <utility>

namespace afterglow {

namespace {

/// Bytes sent to another process at once: large enough that the transfer outweighs its latency.
constexpr std::size_t piece_bytes = std::size_t{8} << 20;

void add_to(std::vector<double>& sum, std::span<const double> other) {
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += other[i];
}

Tensor part_of(const Tensor& tensor, std::int64_t first, std::int64_t count) {
  auto* address = tensor.as<std::byte>() + first * static_cast<std::int64_t>(size_of(tensor.dtype));
  return Tensor(address, {count}, tensor.dtype);
}

}  // namespace

ShardSum::~ShardSum() {
  for (const Tensor& tensor : levels_) {
    if (tensor.defined()) backend_->release(tensor.data);
  }
  if (theirs_.defined()) backend_->release(theirs_.data);
}

Tensor ShardSum::level(std::size_t i, const Tensor& like) {
  if (levels_.size() <= i) levels_.resize(i + 1);
  if (!levels_[i].defined()) levels_[i] = Tensor(backend_->allocate(like.bytes()), like.shape, like.dtype);
  return levels_[i];
}

void ShardSum::begin() { added_ = 0; }

void ShardSum::add(const Tensor& gradient) {
  std::size_t i = 0;
  for (; (added_ >> i & 1) != 0; ++i) backend_->add(level(i, gradient), gradient, gradient);
  ++added_;
  backend_->copy(level(i, gradient), gradient);
}

void ShardSum::finish(const Tensor& slice, std::int64_t offset) {
  for (std::size_t i = 0; (added_ >> i & 1) != 0; ++i)
    backend_->add(part_of(levels_[i], offset, slice.elements()), slice, slice);
  if (ranks_ == nullptr || ranks_->size() == 1) return;
  if (!exchange_) {
    exchange_ = std::make_unique<PieceExchange>(*backend_, *ranks_, piece_bytes);
    const auto most = static_cast<std::int64_t>(piece_bytes / size_of(slice.dtype));
    theirs_ = Tensor(backend_->allocate(piece_bytes), {most}, slice.dtype);
  }
  const std::int64_t most = theirs_.elements();
  for (std::int64_t first = 0; first < slice.elements(); first += most)
    add_others(part_of(slice, first, std::min(most, slice.elements() - first)));
}

/// Two processes add the same two numbers, so that both get the same sum.
void ShardSum::add_others(const Tensor& piece) {
  const Tensor theirs = part_of(theirs_, 0, piece.elements());
  for (int mask = 1; mask < ranks_->size(); mask *= 2) {
    exchange_->swap(ranks_->rank() ^ mask, piece, theirs);
    backend_->add(piece, theirs, piece);
  }
}

std::vector<double> ShardSum::sum(std::vector<std::vector<double>> numbers) {
  for (std::size_t step = 1; step < numbers.size(); step *= 2) {
    for (std::size_t i = 0; i < numbers.size(); i += 2 * step) add_to(numbers[i], numbers[i + step]);
  }
  std::vector<double> all = std::move(numbers.front()), theirs(all.size());
  for (int mask = 1; ranks_ && mask < ranks_->size(); mask *= 2) {
    ranks_->exchange(ranks_->rank() ^ mask, std::as_bytes(std::span(all)), std::as_writable_bytes(std::span(theirs)));
    add_to(all, theirs);
  }
  return all;
}

}  // namespace afterglow
