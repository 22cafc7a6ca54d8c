// Exchanges pieces of a tensor with another process.
#pragma once
#include <vector>

#include "core/backend/backend.h"
#include "core/engine/training/ranks/ranks.h"

namespace afterglow {

/// Uses the fastest path of the machine: from device memory to device memory if every process can map the others', else
/// through shared host memory; between machines MPI sends from pinned memory.
/// the others; else through host memory that both see; between machines MPI sends a piece from pinned memory.
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

}  // namespace afterglow
