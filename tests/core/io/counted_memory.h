// How much memory was held at once, at most, since a moment: to prove that damaged files cost no more than their size.
#pragma once
#include <cstddef>

namespace afterglow {

void start_counting_memory();
/// In bytes, beyond what was held at the start.
std::size_t max_memory_since_start();

}  // namespace afterglow
