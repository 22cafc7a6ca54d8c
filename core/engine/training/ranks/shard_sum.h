// Sums the results of the parts of a batch in one fixed order, whichever process computes them.
#pragma once
#include <memory>
#include <vector>

#include "core/backend/backend.h"
#include "core/engine/training/ranks/piece_exchange.h"
#include "core/engine/training/ranks/ranks.h"

namespace afterglow {

/// ((0+1)+(2+3))+((4+5)+(6+7)) over tensors of one shape and small lists of numbers. Each process adds its parts in
/// order and has the total at the end. Addition is elementwise, so the last part may come in slices.
class ShardSum : Immovable {
 public:
  /// `ranks` may be null: one process has all parts.
  ShardSum(Backend& backend, Ranks* ranks) : backend_(&backend), ranks_(ranks) {}
  ~ShardSum();

  /// Parts of this process.
  int first() const { return ranks_ ? ranks_->rank() * count() : 0; }
  int count() const { return shard_count / (ranks_ ? ranks_->size() : 1); }

  void begin();
  /// Adds the next part, except the last; overwrites `gradient`.
  void add(const Tensor& gradient);
  /// Turns a slice of the last part, from element `offset` on, into the sum of all parts. The work is queued in the
  /// order of transfers, while other slices are computed; all processes finish the slices in the same order.
  void finish(const Tensor& slice, std::int64_t offset);
  /// The sum over all parts of lists of numbers; `numbers` has one list for each part of this process.
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
