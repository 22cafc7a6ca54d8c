// Sums what the parts of a batch give, in one fixed order, whichever process computes them.
#pragma once
#include <vector>

#include "core/backend/backend.h"
#include "core/engine/training/ranks.h"

namespace afterglow {

/// ((0+1)+(2+3))+((4+5)+(6+7)) over tensors of one shape and small lists of numbers. Each process adds its parts in
/// their order and has the sum of all at the end.
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
  /// The next part; `gradient` is overwritten.
  void add(const Tensor& gradient, std::vector<double> numbers);
  /// The sum of all parts: into `gradient`, which is the last one that was added, and as numbers.
  std::vector<double> finish(const Tensor& gradient);

 private:
  Tensor level(std::size_t i, const Tensor& like);
  void add_other(int with, const Tensor& gradient);

  Backend* backend_;
  Ranks* ranks_;
  int added_ = 0;
  std::vector<Tensor> levels_;                // sums of 1, 2 and 4 parts
  std::vector<std::vector<double>> numbers_;  // of the same
  std::vector<double> sum_;                   // of what was added last
  std::vector<std::byte> sent_, received_;
};

}  // namespace afterglow
