// Processes that train one run together, each on a part of every batch. The core knows only this interface; the program
// (app/ranks) implements it.
#pragma once
#include <cstddef>
#include <span>
#include <vector>

namespace afterglow {

/// A batch is split into this many parts, whose gradients are summed as ((0+1)+(2+3))+((4+5)+(6+7)) whichever process
/// computes them, so that 1, 2, 4 and 8 processes give the same bits.
constexpr int shard_count = 8;

class Ranks {
 public:
  virtual ~Ranks() = default;
  virtual int rank() const = 0;  ///< 0 .. size - 1
  virtual int size() const = 0;  ///< 1, 2, 4 or 8
  /// Sends bytes to another process, which makes the same call, and receives as many.
  virtual void exchange(int with, std::span<const std::byte> sent, std::span<std::byte> received) = 0;
  /// Whether `here` is true in any process. All processes call it together.
  bool any(bool here) {
    std::byte one{here}, other{};
    for (int mask = 1; mask < size(); mask *= 2) {
      exchange(rank() ^ mask, {&one, 1}, {&other, 1});
      one |= other;
    }
    return one != std::byte{0};
  }
  /// Memory that all processes of one machine share: this many bytes for each process, empty for processes of other
  /// machines, or for all if the system provides none. All processes call it together. The memory lives as long as this
  /// object.
  virtual std::vector<std::span<std::byte>> share(std::size_t bytes) = 0;
  /// Ends all processes with this exit code.
  [[noreturn]] virtual void end_all(int code) = 0;
};

}  // namespace afterglow
