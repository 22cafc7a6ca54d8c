// Blocks of memory that were released and wait to be asked for again. The runs of a sweep ask for the same blocks one
// after the other, and the CUDA runtime takes memory back only when the whole GPU, all other runs included, has ended
// its work.
#pragma once
#include <cstddef>
#include <map>

namespace afterglow {

/// Addresses by their size. The back end that keeps them here allocated them, and frees them with `clear`.
class SpareMemory {
 public:
  /// At most so many bytes are kept.
  explicit SpareMemory(std::size_t most = 0) : most_(most) {}

  std::size_t bytes() const { return bytes_; }
  bool holds(std::size_t bytes) const { return blocks_.contains(bytes); }
  /// A block of exactly this size, or null.
  void* take(std::size_t bytes) {
    const auto found = blocks_.find(bytes);
    if (found == blocks_.end()) return nullptr;
    void* const address = found->second;
    blocks_.erase(found);
    bytes_ -= bytes;
    return address;
  }
  /// False where it would be too much.
  bool keep(void* address, std::size_t bytes) {
    if (bytes > most_ - bytes_) return false;
    blocks_.emplace(bytes, address);
    bytes_ += bytes;
    return true;
  }
  /// Hands every block to `give(address)`; whether there was any.
  template <class Give>
  bool clear(const Give& give) {
    const bool any = !blocks_.empty();
    for (const auto& [bytes, address] : blocks_) give(address);
    blocks_.clear();
    bytes_ = 0;
    return any;
  }

 private:
  std::size_t most_, bytes_ = 0;
  std::multimap<std::size_t, void*> blocks_;
};

}  // namespace afterglow
