// The way of a tensor's pieces to another process, and of that process's pieces to this one.
#pragma once
#include <array>
#include <vector>

#include "core/backend/backend.h"
#include "core/engine/training/ranks/ranks.h"

namespace afterglow {

/// Between processes of one machine a piece lies in memory that both see, and only its going there and coming from
/// there takes time; between machines it is sent from pinned memory.
class PieceExchange {
 public:
  /// Of pieces of at most so many bytes; all processes make theirs together.
  PieceExchange(Backend& backend, Ranks& ranks, std::size_t most);
  ~PieceExchange();
  PieceExchange(const PieceExchange&) = delete;
  PieceExchange& operator=(const PieceExchange&) = delete;

  std::size_t most() const { return most_; }
  /// Sends `own` and queues that what process `with` sends under the same call comes into `theirs`. Only between the
  /// beginning and the end of transfers, whose order says when memory may be written again.
  void swap(int with, const Tensor& own, const Tensor& theirs);

 private:
  bool is_shared_with(int rank) const;

  Backend* backend_;
  Ranks* ranks_;
  std::size_t most_;
  std::vector<std::span<std::byte>> shared_;
  std::array<unsigned, 3> turns_{};                  // of each other process: one for each bit of this one's number
  std::byte *sent_ = nullptr, *received_ = nullptr;  // pinned; where memory is not shared
};

}  // namespace afterglow
