// How often and for how much memory the test program asked: to prove that a step in its steady state asks for none, and
// that no kernel keeps a matrix that it should not.
#pragma once
#include <cstddef>
#include <cstdint>

namespace afterglow::testing {

/// Calls of operator new since the program began, in all threads.
std::int64_t allocations();
/// Bytes of the largest piece that operator new was asked for since the last call of this function, in all threads.
std::size_t max_allocation();

}  // namespace afterglow::testing
