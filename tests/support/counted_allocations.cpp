// Replaces the global operator new of this test program by one that counts.
#include "tests/support/counted_allocations.h"

#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <new>

namespace {

std::atomic<std::int64_t> count{0};
std::atomic<std::size_t> largest{0}, held{0}, most_held{0};
std::size_t held_at_start = 0;

void raise(std::atomic<std::size_t>& known_most, std::size_t bytes) {
  std::size_t known = known_most;
  while (bytes > known && !known_most.compare_exchange_weak(known, bytes)) {
  }
}

void* counted(void* memory, std::size_t bytes) {
  ++count;
  raise(largest, bytes);
  if (memory != nullptr) raise(most_held, held += malloc_usable_size(memory));
  return memory;
}

void* or_throw(void* memory) {
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

void release(void* memory) {
  if (memory != nullptr) held -= malloc_usable_size(memory);
  std::free(memory);
}

}  // namespace

namespace afterglow {

std::int64_t allocations() { return count; }
std::size_t max_allocation() { return largest.exchange(0); }

void start_counting_memory() {
  held_at_start = held;
  most_held = held_at_start;
}
std::size_t max_memory_since_start() { return most_held - held_at_start; }

}  // namespace afterglow

void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return counted(std::malloc(bytes == 0 ? 1 : bytes), bytes);
}
void* operator new(std::size_t bytes) { return or_throw(operator new(bytes, std::nothrow)); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  const auto unit = static_cast<std::size_t>(alignment);
  return or_throw(counted(std::aligned_alloc(unit, (bytes + unit - 1) / unit * unit + (bytes == 0 ? unit : 0)), bytes));
}
void operator delete(void* memory) noexcept { release(memory); }
void operator delete(void* memory, std::size_t) noexcept { release(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { release(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { release(memory); }
