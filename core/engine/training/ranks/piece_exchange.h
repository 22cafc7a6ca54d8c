// The way of a tensor's pieces to another process, and of that process's pieces to this one.
#pragma once
#include <vector>

#include "core/backend/backend.h"
#include "core/engine/training/ranks/ranks.h"

namespace afterglow {

/// The shortest way that the machine has: from one device's memory to the other's where every process reaches those of
/// the others; else through host memory that both see; between machines MPI sends a piece from pinned memory.
class PieceExchange {
 public:
  /// Of pieces of at most so many bytes; all processes make theirs together.
  PieceExchange(Backend& backend, Ranks& ranks, std::size_t most);
  ~PieceExchange();
  PieceExchange(const PieceExchange&) = delete;
  PieceExchange& operator=(const PieceExchange&) = delete;

  std::size_t most() const { return max_bytes_; }
  /// Sends `own` and queues that what process `with` sends under the same call comes into `theirs`. Only between the
  /// beginning and the end of transfers, whose order says when memory may be written again.
  void swap(int with, const Tensor& own, const Tensor& theirs);

 private:
  /// A process with which this one exchanges. Each has two places for the other, which take turns; null where neither
  /// sees the other's.
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
  std::vector<Other> others_;                        // one for each bit of this one's number
  std::byte* on_device_ = nullptr;                   // places that the others read
  std::vector<std::span<std::byte>> on_host_;        // places of each process of this machine
  std::byte *sent_ = nullptr, *received_ = nullptr;  // pinned; where there are no places
};

}  // namespace afterglow
