// Replaces the global operator new of this test program by one that counts.
#include "tests/support/counted_allocations.h"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {

std::atomic<std::int64_t> count{0};
std::atomic<std::size_t> largest{0};

void note(std::size_t bytes) {
  ++count;
  std::size_t known = largest;
  while (bytes > known && !largest.compare_exchange_weak(known, bytes)) {
  }
}

void* counted(void* memory, std::size_t bytes) {
  note(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

namespace afterglow::testing {

std::int64_t allocations() { return count; }
std::size_t max_allocation() { return largest.exchange(0); }

}  // namespace afterglow::testing

void* operator new(std::size_t bytes) { return counted(std::malloc(bytes == 0 ? 1 : bytes), bytes); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  const auto unit = static_cast<std::size_t>(alignment);
  return counted(std::aligned_alloc(unit, (bytes + unit - 1) / unit * unit + (bytes == 0 ? unit : 0)), bytes);
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  note(bytes);
  return std::malloc(bytes == 0 ? 1 : bytes);
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
