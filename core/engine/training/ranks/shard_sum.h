// Sums what the parts of a batch give, in one fixed order, whichever process computes them.
#pragma once
#include <memory>
#include <vector>

#include "core/backend/backend.h"
#include "core/engine/training/ranks/piece_exchange.h"
#include "core/engine/training/ranks/ranks.h"

namespace afterglow {

/// ((0+1)+(2+3))+((4+5)+(6+7)) over tensors of one shape and small lists of numbers. Each process adds its parts in
/// their order and has the sum of all at the end. Addition is elementwise, so the last part may come in slices.
class ShardSum {
 public:
  /// `ranks` may be null: one process has all parts.
  ShardSum(Backend& backend, Ranks* ranks) : backend_(&backend), ranks_(ranks) {}
  ~ShardSum();
  ShardSum(const ShardSum&) = delete;
  ShardSum& operator=(const ShardSum&) = delete;

  /// Of this process.
  int first() const { return ranks_ ? ranks_->rank() * count() : 0; }
  int count() const { return shard_count / (ranks_ ? ranks_->size() : 1); }

  void begin();
  /// The next part but the last one; `gradient` is overwritten.
  void add(const Tensor& gradient);
  /// A slice of the last part, from element `offset` on, becomes the sum of all parts. Everything is queued in the
  /// order of transfers, while what computes other slices runs; all processes finish the same slices in one order.
  void finish(const Tensor& slice, std::int64_t offset);
  /// The sum of lists of numbers, one of each part of this process, over all parts.
  std::vector<double> sum(std::vector<std::vector<double>> numbers);

 private:
  Tensor level(std::size_t i, const Tensor& like);
  void add_others(const Tensor& piece);

  Backend* backend_;
  Ranks* ranks_;
  int added_ = 0;
  std::vector<Tensor> levels_;  // sums of 1, 2 and 4 parts
  std::unique_ptr<PieceExchange> exchange_;
  Tensor theirs_;  // a piece of another process
};

}  // namespace afterglow
