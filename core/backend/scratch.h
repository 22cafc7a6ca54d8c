// Memory that a thread keeps for a kernel's intermediate values, so that no kernel allocates once sizes have been seen.
#pragma once
#include <cstddef>
#include <cstdint>

namespace afterglow {

/// A growing buffer of one thread, freed when that thread ends. Always aligned to 64 bytes: vectorised sums depend on
/// the alignment of their operands, and the bits of a result must not depend on where a thread's memory happens to lie.
/// It has no destructor: the C library ends the process where it has no memory to remember one of a thread_local.
class ScratchBuffer {
 public:
  /// Of the thread that calls, for which it is declared thread_local. Throws std::bad_alloc.
  std::byte* reserve(std::size_t bytes) { return bytes <= size_ ? memory_ : grow(bytes); }

 private:
  std::byte* grow(std::size_t bytes);
  static void free_all(void* first);
  std::byte* memory_ = nullptr;
  std::size_t size_ = 0;
  ScratchBuffer* next_ = nullptr;  // of the same thread
};

/// `count` uninitialised elements that belong to the calling thread and to `Tag`; valid until the same thread asks for
/// the same tag again. Declare one empty struct per use.
template <class T, class Tag>
T* thread_scratch(std::int64_t count) {
  thread_local constinit ScratchBuffer buffer;
  return reinterpret_cast<T*>(buffer.reserve(static_cast<std::size_t>(count) * sizeof(T)));
}

}  // namespace afterglow
