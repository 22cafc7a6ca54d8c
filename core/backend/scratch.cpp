// The buffers of a thread form a list, whose head is the thread's value of one key.
#include "core/backend/scratch.h"

#include <pthread.h>

#include <new>

namespace afterglow {
namespace {

constexpr std::align_val_t buffer_alignment{64};

/// The key, whose values the system hands to `free_all` when their threads end.
pthread_key_t key_of(void (*free_all)(void*)) {
  static const pthread_key_t key = [free_all] {
    pthread_key_t made{};
    if (pthread_key_create(&made, free_all) != 0) throw std::bad_alloc();
    return made;
  }();
  return key;
}

}  // namespace

std::byte* ScratchBuffer::grow(std::size_t bytes) {
  auto* const larger = static_cast<std::byte*>(::operator new(bytes, buffer_alignment));
  if (!memory_) {
    const pthread_key_t key = key_of(free_all);
    next_ = static_cast<ScratchBuffer*>(pthread_getspecific(key));
    if (pthread_setspecific(key, this) != 0) {
      ::operator delete(larger, buffer_alignment);
      throw std::bad_alloc();
    }
  }
  ::operator delete(memory_, buffer_alignment);
  memory_ = larger;
  size_ = bytes;
  return memory_;
}

void ScratchBuffer::free_all(void* first) {
  for (auto* buffer = static_cast<ScratchBuffer*>(first); buffer; buffer = buffer->next_) {
    ::operator delete(buffer->memory_, buffer_alignment);
    buffer->memory_ = nullptr;
    buffer->size_ = 0;
  }
}

}  // namespace afterglow
