// Replaces the global operator new of this test program, to count what readers allocate.
#include "tests/core/io/counted_memory.h"

#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <new>

namespace afterglow {
namespace {

std::atomic<std::size_t> live{0};
std::atomic<std::size_t> peak{0};
std::size_t live_before = 0;

void note(std::size_t bytes) {
  const std::size_t now = live += bytes;
  peak = std::max(peak.load(), now);
}

}  // namespace

void start_counting_memory() {
  live_before = live;
  peak = live_before;
}

std::size_t max_memory_since_start() { return peak - live_before; }

}  // namespace afterglow

void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  void* memory = std::malloc(bytes);
  if (memory) afterglow::note(malloc_usable_size(memory));
  return memory;
}
void* operator new(std::size_t bytes) {
  void* memory = operator new(bytes, std::nothrow);
  if (!memory) throw std::bad_alloc();
  return memory;
}
void operator delete(void* memory) noexcept {
  afterglow::live -= malloc_usable_size(memory);
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept { operator delete(memory); }
