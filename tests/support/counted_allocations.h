// How often the test program asked for memory: to prove that a step in its steady state asks for none.
#pragma once
#include <cstdint>

namespace afterglow::testing {

/// Calls of operator new since the program began, in all threads.
std::int64_t allocations();

}  // namespace afterglow::testing
