// Sums the results of the parts of a batch in one fixed order, whichever process computes them.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "core/autograd/parameter.h"
#include "core/backend/backend.h"
#include "core/ranks/ranks.h"

namespace afterglow {

/// Consecutive parameters in the flat buffers, and their gradient.
struct GradientBucket {
  int first = 0, end = 0;   ///< indices of the parameters
  std::int64_t offset = 0;  ///< of the first element in the flat buffers
  Tensor gradient;
  std::unique_ptr<DeviceEvent> complete;  ///< recorded by the backward pass when the gradient is complete
};

/// The whole gradient in at most eight buckets of about the same size, the last parameters first, because the backward
/// pass reaches the first parameters last.
std::vector<GradientBucket> gradient_buckets(const ParameterStore& store);

/// Exchanges pieces of a tensor with another process by the fastest path of the machine: from device memory to device
/// memory if every process can map the others', else through shared host memory; between machines MPI sends from pinned
/// memory.
class PieceExchange : Immovable {
 public:
  /// For pieces of at most `most` bytes; all processes construct theirs together.
  PieceExchange(Backend& backend, Ranks& ranks, std::size_t most);
  ~PieceExchange();

  std::size_t most() const { return max_bytes_; }
  /// Sends `own` and queues that `theirs` receives what process `with` sends in the same call. Only between the
  /// beginning and the end of transfers, whose order says when memory may be overwritten.
  void swap(int with, const Tensor& own, const Tensor& theirs);

 private:
  /// A process to exchange with. Each has two alternating buffers for the other; null if neither can map the other's.
  struct Other {
    int rank = 0;
    std::byte *own = nullptr, *theirs = nullptr;
    unsigned turn = 0;
  };
  bool share_device_memory();
  void close_device_memory();
  void share_host_memory();
  bool has_places() const;

  Backend* backend_;
  Ranks* ranks_;
  std::size_t max_bytes_;
  std::vector<Other> others_;                        // one for each bit of this process' rank
  std::byte* on_device_ = nullptr;                   // buffers that the others read
  std::vector<std::span<std::byte>> on_host_;        // buffers of each process of this machine
  std::byte *sent_ = nullptr, *received_ = nullptr;  // pinned; used without shared buffers
};

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
