// Cache of released memory blocks. The runs of a sweep allocate the same sizes again and again, and cudaFree waits
// until the whole GPU is idle.
#pragma once
#include <cstddef>
#include <map>

namespace afterglow {

/// Blocks by size. The owning back end allocated them and frees them with `clear`.
class SpareMemory {
 public:
  /// The cache holds at most `max_bytes`.
  explicit SpareMemory(std::size_t max_bytes = 0) : max_bytes_(max_bytes) {}

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
  /// False when the cache would exceed its limit; then the caller frees the block.
  bool keep(void* address, std::size_t bytes) {
    if (bytes > max_bytes_ - bytes_) return false;
    blocks_.emplace(bytes, address);
    bytes_ += bytes;
    return true;
  }
  /// Passes every block to `give(address)`; returns whether there was any.
  template <class Give>
  bool clear(const Give& give) {
    const bool any = !blocks_.empty();
    for (const auto& [bytes, address] : blocks_) give(address);
    blocks_.clear();
    bytes_ = 0;
    return any;
  }

 private:
  std::size_t max_bytes_, bytes_ = 0;
  std::multimap<std::size_t, void*> blocks_;
};

}  // namespace afterglow
