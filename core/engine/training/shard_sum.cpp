// A counter in binary: where two sums of equally many parts are there, they become one.
#include "core/engine/training/shard_sum.h"

#include <span>

namespace afterglow {

namespace {

void add_to(std::vector<double>& sum, std::span<const double> other) {
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += other[i];
}

}  // namespace

ShardSum::~ShardSum() {
  for (const Tensor& tensor : levels_) {
    if (tensor.defined()) backend_->release(tensor.data);
  }
}

Tensor ShardSum::level(std::size_t i, const Tensor& like) {
  if (levels_.size() <= i) {
    levels_.resize(i + 1);
    numbers_.resize(i + 1);
  }
  if (!levels_[i].defined()) levels_[i] = Tensor(backend_->allocate(like.bytes()), like.shape, like.dtype);
  return levels_[i];
}

void ShardSum::begin() { added_ = 0; }

void ShardSum::add(const Tensor& gradient, std::vector<double> numbers) {
  sum_ = std::move(numbers);
  std::size_t i = 0;
  for (; (added_ >> i & 1) != 0; ++i) {
    backend_->add(level(i, gradient), gradient, gradient);
    add_to(sum_, numbers_[i]);
  }
  ++added_;
  if (added_ == count()) return;  // it is the sum of all
  backend_->copy(level(i, gradient), gradient);
  numbers_[i] = sum_;
}

/// Both add the same two numbers, so that both find the same sum.
void ShardSum::add_other(int with, const Tensor& gradient) {
  const std::size_t small = sum_.size() * sizeof(double);
  sent_.resize(gradient.bytes() + small);
  received_.resize(sent_.size());
  backend_->download(sent_.data(), gradient);
  const auto numbers = std::as_bytes(std::span(sum_));
  std::copy(numbers.begin(), numbers.end(), sent_.begin() + static_cast<std::ptrdiff_t>(gradient.bytes()));
  ranks_->exchange(with, sent_, received_);
  const Tensor other = level(0, gradient);
  backend_->upload(other, received_.data());
  backend_->add(gradient, other, gradient);
  std::vector<double> theirs(sum_.size());
  const auto from = received_.begin() + static_cast<std::ptrdiff_t>(gradient.bytes());
  std::copy(from, received_.end(), std::as_writable_bytes(std::span(theirs)).begin());
  add_to(sum_, theirs);
}

std::vector<double> ShardSum::finish(const Tensor& gradient) {
  for (int mask = 1; ranks_ && mask < ranks_->size(); mask *= 2) add_other(ranks_->rank() ^ mask, gradient);
  return sum_;
}

}  // namespace afterglow
