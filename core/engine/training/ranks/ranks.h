// Processes that train one run together, each a part of every batch. The core knows this interface alone; who the
// others are, and how bytes reach them, is told by the program (app/ranks).
#pragma once
#include <array>
#include <cstddef>
#include <span>
#include <vector>

namespace afterglow {

/// A batch is cut into so many parts, whose gradients are summed as ((0+1)+(2+3))+((4+5)+(6+7)), whichever process
/// computes them: so 1, 2, 4 and 8 processes find the same bits.
constexpr int shard_count = 8;

class Ranks {
 public:
  virtual ~Ranks() = default;
  virtual int rank() const = 0;  ///< 0 .. size - 1
  virtual int size() const = 0;  ///< 1, 2, 4 or 8
  /// Sends these bytes to another process, which does the same, and takes as many of its own.
  virtual void exchange(int with, std::span<const std::byte> sent, std::span<std::byte> received) = 0;
  /// Whether it is so in any of them. All call it together.
  bool any(bool here) {
    std::byte one{here}, other{};
    for (int mask = 1; mask < size(); mask *= 2) {
      exchange(rank() ^ mask, {&one, 1}, {&other, 1});
      one |= other;
    }
    return one != std::byte{0};
  }
  /// Memory that all processes of one machine see: so many bytes of each process, empty for those of other machines;
  /// no one has any where the system gives none. All processes call it together. The memory lives as long as this.
  virtual std::vector<std::span<std::byte>> share(std::size_t bytes) = 0;
  /// Ends all processes with this exit code.
  [[noreturn]] virtual void end_all(int code) = 0;
};

}  // namespace afterglow
