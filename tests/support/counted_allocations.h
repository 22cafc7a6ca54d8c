// How often and for how much memory the test program asked: to prove that a step in its steady state asks for none,
// that no kernel keeps a matrix that it should not, and that a damaged file costs no more than its size.
#pragma once
#include <cstddef>
#include <cstdint>

namespace afterglow {

/// Calls of operator new since the program began, in all threads.
std::int64_t allocations();
/// Bytes of the largest piece that operator new was asked for since the last call of this function, in all threads.
std::size_t max_allocation();

void start_counting_memory();
/// The most bytes that were held at once since the last start, beyond what was held then.
std::size_t max_memory_since_start();

}  // namespace afterglow
