// Memory that a thread keeps for a kernel's intermediate values, so that no kernel allocates once sizes have been seen.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

namespace afterglow {

/// A growing buffer. Always aligned to 64 bytes: vectorised sums depend on the alignment of their operands, and the
/// bits of a result must not depend on where a thread's memory happens to lie.
class ScratchBuffer {
 public:
  std::byte* reserve(std::size_t bytes) {
    if (bytes > size_) {
      memory_.reset(static_cast<std::byte*>(::operator new (bytes, std::align_val_t{alignment})));
      size_ = bytes;
    }
    return memory_.get();
  }

 private:
  static constexpr std::size_t alignment = 64;
  struct Free {
    void operator()(std::byte* memory) const { ::operator delete (memory, std::align_val_t{alignment}); }
  };
  std::unique_ptr<std::byte, Free> memory_;
  std::size_t size_ = 0;
};

/// `count` uninitialised elements that belong to the calling thread and to `Tag`; valid until the same thread asks for
/// the same tag again. Declare one empty struct per use.
template <class T, class Tag>
T* thread_scratch(std::int64_t count) {
  thread_local ScratchBuffer buffer;
  return reinterpret_cast<T*>(buffer.reserve(static_cast<std::size_t>(count) * sizeof(T)));
}

}  // namespace afterglow
